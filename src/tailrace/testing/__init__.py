"""What tests, demonstrations and benchmarks share: generated histories in oplog format. Level 5."""
