"""The command line, one file for one command. Level 5."""
