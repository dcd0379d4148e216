"""Columns of documents: inferred, evolved or given, filled from BSON without losing a value."""
