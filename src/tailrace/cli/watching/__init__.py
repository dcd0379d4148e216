"""What `tailrace watch` does with events: prints them, runs a command, or writes files."""
