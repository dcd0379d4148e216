"""The offset of the pipeline's stream: one cluster time, as a batch ends at the same time on every shard.

On a cluster it also names the shards: a batch is read from those that the offset of its end names.

>>> to_offset(7 << 32 | 2)
{'version': 1, 'through': [7, 2]}
>>> from_offset(to_offset(7 << 32 | 2)) == 7 << 32 | 2
True
>>> to_offset(7 << 32, {"s0": {"host": "s0/a:1"}})
{'version': 2, 'through': [7, 0], 'shards': {'s0': {'host': 's0/a:1'}}}
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import ClusterTime, from_pair, to_pair

_VERSION: Final = 1
_WITH_SHARDS: Final = 2


def to_offset(time: int, shards: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the offset at which everything through a cluster time is done; ``shards`` if they may change."""
    offset = {"version": _VERSION, "through": to_pair(time)}
    return {**offset, "version": _WITH_SHARDS, "shards": dict(shards)} if shards else offset


def from_offset(offset: Mapping[str, Any]) -> ClusterTime:
    if offset.get("version") not in (_VERSION, _WITH_SHARDS):
        raise UsageError(
            f"the checkpoint was written by another version of Tailrace (offset {dict(offset)}); "
            "remove the checkpoint: the history itself shows where to continue"
        )
    return from_pair(offset["through"])


def shards_of(offset: Mapping[str, Any]) -> Mapping[str, Any]:
    shards: Mapping[str, Any] = offset.get("shards", {})
    return shards
