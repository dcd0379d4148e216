"""Members of a replica set and their elections."""
