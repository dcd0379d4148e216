"""Commands on sessions and transactions."""
