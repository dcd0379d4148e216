"""Differences between server releases, and fail points."""
