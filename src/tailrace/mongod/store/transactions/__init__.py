"""Multi-document transactions on the store."""
