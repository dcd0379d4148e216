"""The files of a data directory: whether they are whole."""
