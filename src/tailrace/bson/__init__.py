"""BSON as bytes: read, splice, compare, sort, and convert to Extended JSON and KeyString."""
