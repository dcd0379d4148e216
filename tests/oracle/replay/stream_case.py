"""A change stream to compare: where it is opened, its options and its pipeline."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

Document = dict[str, Any]
_ON_ENTRIES: Final = re.compile(r"\$(\$(ROOT|CURRENT)\.)?(operationType|ns|to|documentKey)(\.|$)")
START_POINTS = ("startAtOperationTime", "resumeAfter", "startAfter")


@dataclass(frozen=True)
class StreamCase:
    database: str | None = None
    """None: the whole deployment."""
    collection: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    pipeline: Sequence[Mapping[str, Any]] = ()
    collation: Mapping[str, Any] | None = None
    let: Mapping[str, Any] | None = None

    @property
    def namespace(self) -> str | None:
        if self.database is None or self.collection is None:
            return self.database
        return f"{self.database}.{self.collection}"

    @property
    def may_fail_on_entries(self) -> bool:
        """Whether the first filter has an expression on fields that entries have, too.

        A mongod tests it on entries, in an order of its own: it may fail where ours does not, or the other
        way round (docs/server.md).
        """
        return any(map(_ON_ENTRIES.match, _texts_of_expressions(self.pipeline[:1])))

    def starting(self, **start: Any) -> "StreamCase":
        """The same stream from another point."""
        kept = {name: value for name, value in self.options.items() if name not in START_POINTS}
        return replace(self, options={**kept, **start})

    def command(self) -> Document:
        """The aggregate command without its `$db`."""
        options = dict(self.options)
        if self.database is None:
            options["allChangesForCluster"] = True
        command: Document = {
            "aggregate": 1 if self.collection is None else self.collection,
            "pipeline": [{"$changeStream": options}, *self.pipeline],
            "cursor": {"batchSize": 0},
        }
        if self.collation is not None:
            command["collation"] = self.collation
        if self.let is not None:
            command["let"] = self.let
        return command

    def __str__(self) -> str:
        extra = f" collation {self.collation}" if self.collation else ""
        extra += f" let {self.let}" if self.let else ""
        return f"{self.namespace or 'cluster'} {dict(self.options)} {list(self.pipeline)}{extra}"


@dataclass(frozen=True)
class Part:
    """What a stream returned from its opening to its end: its events, and how it ended."""

    events: list[bytes]
    error: int | None = None
    end: bytes | None = None
    """The position of a stream that is still open, a resume token."""


def fails_elsewhere(case: StreamCase, real: Part, events: Sequence[bytes], error: int | None) -> bool:
    """Whether a stream fails at another place than the real one, as it may, and shows the same until then."""
    if real.error == error or not case.may_fail_on_entries:
        return False
    return all(one == other for one, other in zip(real.events, events, strict=False))


def _texts_of_expressions(value: object, *, is_expression: bool = False) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _texts_of_expressions(part, is_expression=is_expression or name == "$expr")
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts_of_expressions(part, is_expression=is_expression)
    elif isinstance(value, str) and is_expression:
        yield value
