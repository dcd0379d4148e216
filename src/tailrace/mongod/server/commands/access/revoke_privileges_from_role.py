"""`revokePrivilegesFromRole`: revoke privileges from a role."""

from tailrace.mongod.server.access.grant_commands import privileges_command

COMMAND = privileges_command("revokePrivilegesFromRole", "Revoke privileges from a role.", is_grant=False)
