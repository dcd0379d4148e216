"""Handshake and connection commands."""
