"""MongoDB's query language: match, expressions, reshaping, updates. Level 1: pure, imports level 0."""
