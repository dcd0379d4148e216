"""Administration and diagnostics."""
