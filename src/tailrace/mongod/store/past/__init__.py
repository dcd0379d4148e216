"""Earlier states of the store: what changes leave in the table `undo`, and snapshots that read it."""
