"""Images that the source did not store."""
