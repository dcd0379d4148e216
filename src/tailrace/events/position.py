"""A position in all oplogs of a deployment, as checkpoints store it and users write it in options.

>>> from tailrace.events.cluster_time import cluster_time
>>> position = Position({"shard0": cluster_time(7, 2)})
>>> position.to_json()
'{"version": 1, "shards": {"shard0": [7, 2]}}'
>>> Position.parse(position.to_json()) == position
True
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.errors import UsageError
from tailrace.events.cluster_time import BEGINNING, from_pair, is_pair, to_pair

VERSION: Final = 1
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
SNAPSHOT: Final = "snapshot"
"""The documents that there are, then the changes"""
_SHAPE: Final = f'{{"version": {VERSION}, "shards": {{"<name>": [<seconds>, <increment>]}}}}'


@dataclass(frozen=True, slots=True)
class Position:
    """Everything up to these cluster times, by shard, has been read."""

    times: Mapping[str, int]

    @classmethod
    def at(cls, shards: Iterable[str], time: int) -> "Position":
        """Build the position at the same cluster time of every shard."""
        return cls(dict.fromkeys(shards, time))

    @classmethod
    def of(cls, document: Any, what: str = "the offset") -> "Position":
        """Read a decoded JSON document; ``what`` names it in the `UsageError` if it is malformed."""
        if not isinstance(document, Mapping) or not isinstance(document.get("shards"), Mapping):
            raise UsageError(f"{what} must look like {_SHAPE}")
        if document.get("version", VERSION) != VERSION:
            raise UsageError(
                f"{what} has version {document['version']!r}, and this release reads version {VERSION}; "
                "go on with the release that wrote it, or begin with a new checkpoint"
            )
        times = {}
        for name, time in document["shards"].items():
            if not is_pair(time):
                raise UsageError(f"{what} must look like {_SHAPE}; {name!r} has {time!r}")
            times[str(name)] = from_pair(time)
        return cls(times)

    @classmethod
    def parse(cls, text: str, what: str = "the offset") -> "Position":
        """Read the JSON text of a position."""
        try:
            return cls.of(json.loads(text), what)
        except ValueError:
            raise UsageError(f"{what} must be JSON that looks like {_SHAPE}, not {text!r}") from None

    def to_document(self) -> dict[str, Any]:
        """Return the document that Spark writes into a checkpoint."""
        return {"version": VERSION, "shards": {name: to_pair(time) for name, time in self.times.items()}}

    def to_json(self) -> str:
        return json.dumps(self.to_document())

    @property
    def earliest(self) -> int:
        """The smallest time of all shards."""
        return min(self.times.values(), default=BEGINNING)

    def of_shards(self, shards: Iterable[str]) -> "Position":
        """Return the position in these shards; a new one begins at the earliest time of the others."""
        return Position({name: self.times.get(name, self.earliest) for name in shards})
