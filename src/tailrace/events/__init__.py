"""The vocabulary: oplog entries, events, resume tokens, options. Level 1: pure, imports level 0."""
