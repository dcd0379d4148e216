"""The ``$v: 2`` diff of an update: read it, describe it, apply it, compute it.

All of it works on raw BSON: values are found and copied, never decoded.
"""

from tailrace.events.update_diff.apply import apply_diff, image_after
from tailrace.events.update_diff.compute import compute_diff
from tailrace.events.update_diff.delta import DELTA_LEAD, DIFF_START, delta_of, diff_of, is_delta
from tailrace.events.update_diff.description import NO_PATHS, describe, without_disambiguated_paths
from tailrace.events.update_diff.parser import parse

__all__ = [
    "DELTA_LEAD",
    "DIFF_START",
    "NO_PATHS",
    "apply_diff",
    "compute_diff",
    "delta_of",
    "describe",
    "diff_of",
    "image_after",
    "is_delta",
    "parse",
    "without_disambiguated_paths",
]
