"""Options of the Spark data sources."""
