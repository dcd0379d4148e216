"""Modules that a worker of Spark has loaded: garbage collections need not look at them."""

import gc
import sys


class _Exempt:
    modules = 0
    """How many were loaded when they were made exempt"""


def exempt_loaded_modules() -> None:
    """Exempt what is loaded from garbage collections, if there are more modules than at the last call.

    Called in a task. Spark's workers collect all garbage after each task, which takes 50 ms of processor time
    with all modules of PySpark, Arrow and Tailrace: as much as merging a file of a mirrored table, or as rows
    of 25,000 entries with the compiled kernel.
    """
    if len(sys.modules) > _Exempt.modules:
        _Exempt.modules = len(sys.modules)
        gc.collect()
        gc.freeze()
