"""Commands on collections, indexes and databases."""
