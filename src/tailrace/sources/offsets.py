"""Positions in all oplogs of a deployment, as checkpoints keep them and users write them in options.

>>> offset = Offset({"shard0": 7 << 32 | 2})
>>> offset.to_json()
'{"version": 1, "shards": {"shard0": [7, 2]}}'
>>> Offset.parse(offset.to_json()) == offset
True
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.errors import UsageError

VERSION: Final = 1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_INCREMENTS: Final = 0xFFFFFFFF
_SHAPE: Final = f'{{"version": {VERSION}, "shards": {{"<name>": [<seconds>, <increment>]}}}}'


@dataclass(frozen=True, slots=True)
class Offset:
    """Everything up to these cluster times, by shard, has been read."""

    times: Mapping[str, int]

    @classmethod
    def at(cls, shards: Iterable[str], time: int) -> "Offset":
        """The same cluster time on every shard."""
        return cls(dict.fromkeys(shards, time))

    @classmethod
    def of(cls, document: Any, what: str = "the offset") -> "Offset":
        """The offset of a decoded JSON document; ``what`` names it if it is none."""
        if not isinstance(document, Mapping) or not isinstance(document.get("shards"), Mapping):
            raise UsageError(f"{what} must look like {_SHAPE}")
        if document.get("version", VERSION) != VERSION:
            raise UsageError(
                f"{what} has version {document['version']!r}, and this release reads version {VERSION}; "
                "go on with the release that wrote it, or begin with a new checkpoint"
            )
        times = {}
        for name, time in document["shards"].items():
            is_time = isinstance(time, list | tuple) and len(time) == 2
            if not is_time or not all(type(part) is int and 0 <= part <= _INCREMENTS for part in time):
                raise UsageError(f"{what} must look like {_SHAPE}; {name!r} has {time!r}")
            times[str(name)] = time[0] << 32 | time[1]
        return cls(times)

    @classmethod
    def parse(cls, text: str, what: str = "the offset") -> "Offset":
        """The offset of a text."""
        try:
            return cls.of(json.loads(text), what)
        except ValueError:
            raise UsageError(f"{what} must be JSON that looks like {_SHAPE}, not {text!r}") from None

    def to_document(self) -> dict[str, Any]:
        """As Spark writes it into a checkpoint."""
        shards = {name: [time >> 32, time & _INCREMENTS] for name, time in self.times.items()}
        return {"version": VERSION, "shards": shards}

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_document())

    @property
    def earliest(self) -> int:
        """The time of the shard that is furthest behind."""
        return min(self.times.values(), default=0)

    def of_shards(self, shards: Iterable[str]) -> "Offset":
        """The offset of these shards; one that was not there yet begins where the last one stands."""
        return Offset({name: self.times.get(name, self.earliest) for name in shards})


def before_timestamp(milliseconds: int) -> int:
    """The cluster time behind which everything was written at a wall-clock time or later, to the second.

    The increments of a second begin with 1.

    >>> before_timestamp(7_999) == 7 << 32
    True
    """
    return milliseconds // 1000 << 32


def through_timestamp(milliseconds: int) -> int:
    """The last cluster time of the second in which a wall-clock time lies.

    >>> through_timestamp(7_999) == (8 << 32) - 1
    True
    """
    return (milliseconds // 1000 << 32) + _INCREMENTS
