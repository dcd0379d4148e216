"""Commands on the replica set."""
