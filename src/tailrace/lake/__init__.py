"""The history: all canonical events of a deployment as a Delta table that anything can read."""
