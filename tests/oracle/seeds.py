"""The seeds of random comparisons: few in `make test`, more in `make oracle`; `TAILRACE_SEED` shifts them."""

import os
import random
from collections.abc import Iterable
from typing import Final, TypeVar

_FIRST: Final = int(os.environ.get("TAILRACE_SEED", "1"))
SEEDS: Final = range(_FIRST, _FIRST + int(os.environ.get("TAILRACE_ORACLE_SEEDS", "1")))
IS_SHORT: Final = len(SEEDS) == 1
"""Whether this is the part in `make test`."""
T = TypeVar("T")


def some(cases: Iterable[T], most: int) -> list[T]:
    """All cases in their order; in `make test` a sample of at most so many."""
    found = list(cases)
    if not IS_SHORT or len(found) <= most:
        return found
    chosen = sorted(random.Random(SEEDS[0]).sample(range(len(found)), most))
    return [found[place] for place in chosen]
