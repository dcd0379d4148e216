"""A sharded cluster in one process: shards, a config server, routers, and where everything is."""
