"""The parts of `tailrace consume`: its arguments, and what it prints about groups."""
