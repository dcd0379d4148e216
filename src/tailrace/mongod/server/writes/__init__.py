"""The execution of write statements, for insert, update, delete, findAndModify and bulkWrite alike."""
