"""Oplogs of running deployments, read through PyMongo."""
