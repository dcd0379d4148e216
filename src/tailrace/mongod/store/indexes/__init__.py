"""Index keys and the values they list."""
