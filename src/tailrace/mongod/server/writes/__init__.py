"""Execute write statements, for insert, update, delete, findAndModify and bulkWrite."""
