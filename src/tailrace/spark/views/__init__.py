"""The view part on Spark: one stream's rows, interval of cluster time by interval."""
