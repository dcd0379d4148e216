"""The list of a table's data files, in columns; its checkpoints."""
