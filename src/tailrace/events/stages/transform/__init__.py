"""Stage 3: oplog entries to change events."""
