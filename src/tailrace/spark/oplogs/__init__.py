"""Where oplog entries come from: deployments and archived files, readable on any executor."""
