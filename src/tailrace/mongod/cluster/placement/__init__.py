"""Which shard holds what."""
