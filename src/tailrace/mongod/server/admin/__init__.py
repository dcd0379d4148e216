"""Parameters, counters, logs and background tasks of a server."""
