"""Change streams computed by intervals of cluster time."""
