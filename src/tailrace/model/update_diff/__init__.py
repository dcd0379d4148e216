"""The ``$v: 2`` diff of an update: read it, describe it, apply it, compute it.

All of it works on raw BSON: values are found and copied, never decoded.
"""

from tailrace.model.update_diff.describe import describe

__all__ = ["describe"]
