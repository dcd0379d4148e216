"""Run requests: checks, arguments, context, labels."""
