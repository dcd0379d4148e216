"""Zones: which shards may own which ranges."""
