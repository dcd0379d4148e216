"""Validation of documents against a collection's rules."""
