"""The LMDB store: documents, catalog, oplog, images and sessions of one replica set."""
