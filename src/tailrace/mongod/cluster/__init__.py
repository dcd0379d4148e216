"""A sharded cluster in one process: shards, a config server, routers and the placement of data."""
