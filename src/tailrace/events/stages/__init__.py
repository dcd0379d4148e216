"""The change-stream pipeline, one file for one stage. Level 2: pure, look-ups are passed in."""
