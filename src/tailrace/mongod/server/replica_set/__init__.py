"""The members of a replica set and their elections."""
