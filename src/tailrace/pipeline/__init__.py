"""What Spark's driver and tasks run, without Spark: batches, streams by interval, rows, options."""
