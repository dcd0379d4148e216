"""Router commands on documents."""
