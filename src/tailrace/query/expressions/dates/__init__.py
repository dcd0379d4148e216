"""Expressions on dates."""
