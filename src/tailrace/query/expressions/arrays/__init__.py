"""Expressions on arrays and sets."""
