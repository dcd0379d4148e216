"""The parts of MongoDB's language that change streams may not use: aggregation, updates, find projections."""
