"""Columns of change stream rows."""
