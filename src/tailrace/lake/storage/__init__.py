"""Where a history is stored: local folders and object stores."""
