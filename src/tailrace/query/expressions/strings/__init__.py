"""Expressions on strings."""
