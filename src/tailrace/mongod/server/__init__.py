"""The replica set in one process: sockets, dispatch, commands, cursors, sessions."""
