"""A MongoDB deployment in one process: wire protocol, store, replica set, sharded cluster."""
