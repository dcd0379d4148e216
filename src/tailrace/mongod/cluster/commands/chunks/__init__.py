"""Commands on chunks and the balancer."""
