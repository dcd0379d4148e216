"""Find documents, compute results, and return them in batches."""
