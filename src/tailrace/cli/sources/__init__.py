"""The deployments that commands connect to."""
