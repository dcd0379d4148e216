"""Attacks on a server: what a careless or hostile client costs the others (`make attack`)."""
