"""Administration of a router."""
