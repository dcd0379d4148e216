"""`grantRolesToUser`: grant roles to a user."""

from tailrace.mongod.server.access.grant_commands import roles_command

COMMAND = roles_command("grantRolesToUser", "Grant roles to a user.", of_user=True, is_grant=True)
