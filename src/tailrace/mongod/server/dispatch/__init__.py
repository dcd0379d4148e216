"""From a request to its command and back."""
