"""Questions to deployments and histories: how they are, and what can be resumed there."""
