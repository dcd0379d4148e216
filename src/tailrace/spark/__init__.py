"""Tailrace on Spark: oplog sources, the pipeline that builds the history, change streams as DataFrames."""
