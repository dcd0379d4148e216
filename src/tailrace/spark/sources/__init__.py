"""The data sources that Spark knows by name."""
