"""`revokeRolesFromUser`: revoke roles from a user."""

from tailrace.mongod.server.access.grant_commands import roles_command

COMMAND = roles_command("revokeRolesFromUser", "Revoke roles from a user.", of_user=True, is_grant=False)
