"""Commands on shards and sharded collections."""
