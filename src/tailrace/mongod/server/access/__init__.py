"""Who may do what: users, roles, log-in, and the rights that commands need."""
