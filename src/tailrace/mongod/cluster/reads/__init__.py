"""Reading all shards as one deployment."""
