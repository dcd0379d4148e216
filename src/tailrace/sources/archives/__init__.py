"""Archived oplogs and dumps: files as `mongodump` writes them."""
