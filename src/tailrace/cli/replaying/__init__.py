"""What `tailrace replay` does: which files, which stream, in this process or on Spark."""
