"""Route the statements of write commands to shards, send them, and combine the replies."""
