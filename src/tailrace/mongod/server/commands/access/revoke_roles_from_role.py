"""`revokeRolesFromRole`: revoke roles from a role."""

from tailrace.mongod.server.access.grant_commands import roles_command

COMMAND = roles_command("revokeRolesFromRole", "Revoke roles from a role.", of_user=False, is_grant=False)
