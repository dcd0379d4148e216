"""Router commands on collections, indexes and databases."""
