"""Ask several shards at the same time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST_AT_ONCE: Final = 32
"""Enough that waiting for the slowest shards does not add up, and few threads beside those of the driver."""


def asked(ask: Callable[[T], R], shards: Iterable[T]) -> list[R]:
    """Return what each shard answers, in their order; of several errors, that of the first one is raised.

    >>> asked(len, ["a", "bcd"])
    [1, 3]
    """
    targets = list(shards)
    if len(targets) < 2:
        return [ask(target) for target in targets]
    with ThreadPoolExecutor(min(len(targets), _MOST_AT_ONCE), thread_name_prefix="tailrace-shards") as pool:
        return list(pool.map(ask, targets))
