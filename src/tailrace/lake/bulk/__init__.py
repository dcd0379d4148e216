"""Rows of the history table built many at a time, with the same bytes as one at a time."""
