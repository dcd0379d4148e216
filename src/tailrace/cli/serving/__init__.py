"""The parts of `tailrace serve`, and the pages of it and of `tailrace pipeline`."""
