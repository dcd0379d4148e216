"""Plan caches and index filters."""
