"""Sockets and replies."""
