"""The offset of the pipeline's stream: one cluster time, for a batch ends at the same time on every shard.

Behind a router it names the shards, too: a batch is read from those that the offset of its end names.

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

_VERSION: Final = 1
_WITH_SHARDS: Final = 2
_INCREMENT: Final = (1 << 32) - 1


def to_offset(time: int, shards: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The offset that says everything through this cluster time is done; ``shards`` if they may change."""
    offset = {"version": _VERSION, "through": [time >> 32, time & _INCREMENT]}
    return {**offset, "version": _WITH_SHARDS, "shards": dict(shards)} if shards else offset


def from_offset(offset: Mapping[str, Any]) -> int:
    """The cluster time of an offset."""
    if offset.get("version") not in (_VERSION, _WITH_SHARDS):
        raise UsageError(
            f"the checkpoint was written by another version of Tailrace (offset {dict(offset)}); "
            "remove the checkpoint, the history itself says where to go on"
        )
    seconds, increment = offset["through"]
    return int(seconds) << 32 | int(increment)


def shards_of(offset: Mapping[str, Any]) -> Mapping[str, Any]:
    """The shards that an offset names."""
    shards: Mapping[str, Any] = offset.get("shards", {})
    return shards
