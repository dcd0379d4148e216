"""Collections as they were: documents rebuilt from the changes in a history."""
