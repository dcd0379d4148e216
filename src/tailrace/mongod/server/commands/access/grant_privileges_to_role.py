"""`grantPrivilegesToRole`: grant privileges to a role."""

from tailrace.mongod.server.access.grant_commands import privileges_command

COMMAND = privileges_command("grantPrivilegesToRole", "Grant privileges to a role.", is_grant=True)
