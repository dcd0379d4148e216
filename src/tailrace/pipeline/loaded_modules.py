"""Modules that a worker of Spark has loaded: garbage collections need not look at them."""

import gc
from functools import cache


@cache
def leave_to_process() -> None:
    """Exempt the objects that there are from garbage collections, until the process ends.

    Called when a task has imported what it needs; only the first call of a process does anything. Spark's
    workers collect all garbage after each task, which takes 50 ms of processor time with all modules of
    PySpark, Arrow and Tailrace: as much as rows of 25,000 entries with the compiled kernel.
    """
    gc.collect()
    gc.freeze()
