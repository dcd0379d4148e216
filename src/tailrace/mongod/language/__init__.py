"""The parts of MongoDB's language that change streams cannot use: aggregation, updates, find projections."""
