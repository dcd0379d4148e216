"""Aggregation stages that read other collections."""
