"""Change streams of clients, and the history that they read."""
