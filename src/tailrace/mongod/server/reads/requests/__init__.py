"""The options of the read commands."""
