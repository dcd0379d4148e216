"""BSON as bytes: walking, splicing, comparing, ordering. Level 0: PyMongo's `bson` and errors only."""
