"""`applyOps`: apply operations as the oplog has them."""
