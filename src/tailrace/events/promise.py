"""The promise of a log: the cluster time up to which it is complete.

Everything up to a promise can be read, and nothing will be added there. A log made of several shards
promises what all of them promise; the promise of a log that has ended is `END_OF_TIME`.
"""

from collections.abc import Iterable
from typing import NewType

from tailrace.events.cluster_time import BEGINNING, ClusterTime

Promise = NewType("Promise", ClusterTime)


def promise(time: int) -> Promise:
    """Return a cluster time as a promise."""
    return Promise(ClusterTime(time))


def common_promise(promises: Iterable[Promise]) -> Promise:
    """Return what all logs promise together: the smallest; nothing without logs.

    >>> common_promise([promise(7), promise(5)])
    5
    """
    return min(promises, default=Promise(BEGINNING))
