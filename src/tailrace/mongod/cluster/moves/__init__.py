"""Moving data between shards."""
