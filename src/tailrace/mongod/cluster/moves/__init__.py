"""Move data between shards."""
