"""Releases of MongoDB, and fail points."""
