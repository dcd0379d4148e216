"""Events as rows of a DataFrame: the schema, and BSON as Spark's types."""
