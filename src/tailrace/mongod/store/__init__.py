"""Where entries, images and documents are kept. Level 2."""
