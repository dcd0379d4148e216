"""Expressions on numbers."""
