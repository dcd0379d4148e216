"""What `explain` shows of a plan: its filter, its stages, and their figures."""
