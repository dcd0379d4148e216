"""Aggregation stages, one file each."""
