"""Sockets, connections and replies."""
