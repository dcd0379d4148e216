"""The parts of `tailrace serve`."""
