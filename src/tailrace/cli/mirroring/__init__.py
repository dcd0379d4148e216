"""The command `tailrace mirror`."""
