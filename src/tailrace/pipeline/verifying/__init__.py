"""Verify what a pipeline has written: its events or documents beside those of the source."""
