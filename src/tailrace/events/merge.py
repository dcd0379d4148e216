"""One order over several shards: by cluster time, and by resume token where several have the same time.

All merges of shards use this module: the event log of a cluster, an archive of several oplogs, and the
sort of the rows of a history. What is merged may be entries, events or rows.
"""

from collections.abc import Callable, Sequence
from itertools import chain, groupby
from typing import TypeVar

from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.resume_token import CURRENT_VERSION

T = TypeVar("T")


def order_key(cluster_time: int, token: str) -> tuple[int, str]:
    """Return what events are sorted by; ``token`` is the text of the resume token.

    >>> order_key(7, "82A0") < order_key(7, "82B0") < order_key(8, "82A0")
    True
    """
    return cluster_time, token


def merge_by_time(
    parts: Sequence[Sequence[T]], time_of: Callable[[T], int], settle: Callable[[list[T]], Sequence[T]]
) -> Sequence[T]:
    """Merge sequences that are each in the order of cluster time.

    What has the same cluster time goes through ``settle``, which returns it in order.

    >>> merge_by_time([[1, 4], [2, 4]], lambda time: time, lambda tied: [sum(tied)])
    [1, 2, 8]
    """
    if len(parts) < 2:
        return parts[0] if parts else ()
    merged = sorted(chain.from_iterable(parts), key=time_of)  # quick, as it notices that the parts are sorted
    if len(set(map(time_of, merged))) == len(merged):
        return merged
    settled: list[T] = []
    for _, group in groupby(merged, time_of):
        tied = list(group)
        settled += tied if len(tied) == 1 else settle(tied)
    return settled


def settle_events(
    tied: list[ChangeEvent], version_of: Callable[[ChangeEvent], int] = lambda _: CURRENT_VERSION
) -> list[ChangeEvent]:
    """Order events of one cluster time by token; those of one shard are in order already."""
    if len({event.shard for event in tied}) < 2:
        return tied
    return sorted(
        tied, key=lambda event: order_key(event.entry.ts, resume_token(event, version_of(event)).data)
    )
