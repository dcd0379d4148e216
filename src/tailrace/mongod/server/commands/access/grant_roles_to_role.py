"""`grantRolesToRole`: grant roles to a role."""

from tailrace.mongod.server.access.grant_commands import roles_command

COMMAND = roles_command("grantRolesToRole", "Grant roles to a role.", of_user=False, is_grant=True)
