"""Parts of `tailrace check`."""
