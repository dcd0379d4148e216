"""Index keys: which keys an index has for a document."""
