"""Reads: which documents a query is about, how they are found, and how they reach the client in batches."""
