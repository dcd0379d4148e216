"""Users and roles."""
