"""Access paths to documents, and the choice between them."""
