"""The offset of the pipeline's stream: one cluster time, for a batch ends at the same time on every shard.

>>> to_offset(7 << 32 | 2)
{'version': 1, 'through': [7, 2]}
>>> from_offset({'version': 1, 'through': [7, 2]}) == 7 << 32 | 2
True
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import UsageError

_VERSION: Final = 1
_INCREMENT: Final = (1 << 32) - 1


def to_offset(time: int) -> dict[str, Any]:
    """The offset that says everything through this cluster time is done."""
    return {"version": _VERSION, "through": [time >> 32, time & _INCREMENT]}


def from_offset(offset: Mapping[str, Any]) -> int:
    """The cluster time of an offset."""
    if offset.get("version") != _VERSION:
        raise UsageError(
            f"the checkpoint was written by another version of Tailrace (offset {dict(offset)}); "
            "remove the checkpoint, the history itself says where to go on"
        )
    seconds, increment = offset["through"]
    return int(seconds) << 32 | int(increment)
