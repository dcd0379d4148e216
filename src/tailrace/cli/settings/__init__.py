"""Options from a file and from the environment, for every command alike."""
