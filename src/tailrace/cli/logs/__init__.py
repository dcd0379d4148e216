"""The log of the commands that run until they are ended."""
