"""Store, query and change which shard has which data."""
