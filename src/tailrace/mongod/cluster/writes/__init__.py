"""How a router writes: statements are targeted, sent to shards, and their replies put together."""
