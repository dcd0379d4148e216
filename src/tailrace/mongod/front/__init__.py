"""Serve the change streams of a deployment that is somewhere else."""
