"""A replica set or a sharded cluster inside a test, and the pytest fixtures."""
