"""The user's first `$match`, rewritten onto oplog entries."""
