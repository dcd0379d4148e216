"""Change streams as clients open them, and the history they read."""
