"""Run the drivers' spec tests for change streams against any server, with our stream or PyMongo's."""
