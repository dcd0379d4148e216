"""Tailrace: MongoDB change streams in Python. Oplogs in, change streams out."""

__version__ = "0.1.0"
