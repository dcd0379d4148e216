"""Building the history table, one interval of cluster time after the other."""
