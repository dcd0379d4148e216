"""What tests, demonstrations and benchmarks share: a replica set for tests, random histories. Level 5."""
