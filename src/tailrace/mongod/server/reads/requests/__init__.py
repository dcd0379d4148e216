"""Options of the read commands, parsed and checked."""
