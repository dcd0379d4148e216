"""What tools and drivers ask about a server."""
