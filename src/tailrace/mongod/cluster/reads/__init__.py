"""Read all shards as one deployment."""
