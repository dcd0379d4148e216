"""The streaming job that builds the history: oplogs in, commits of a Delta table out."""
