"""Oplogs to read: archived files and running deployments."""
