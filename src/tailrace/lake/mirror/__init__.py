"""Delta tables with the documents of one collection each."""
