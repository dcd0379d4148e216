"""Conversions between BSON types."""
