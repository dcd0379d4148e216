"""Transactions over several shards."""
