"""Run a stream over a generated history: open it, push the oplog, collect the events.

The laws of a change stream are statements about these outcomes.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.resume_token import ResumeToken
from tailrace.events.scope import Scope
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.log.local_engine import LocalEngine
from tests.support.history import History, timestamp_of

Pipeline = Sequence[Mapping[str, Any]]
RESUME_OPTIONS = ("resumeAfter", "startAfter", "startAtOperationTime")


@dataclass(slots=True)
class Outcome:
    """The result of a stream until the end of its input."""

    events: list[bytes] = field(default_factory=list)
    invalidated: bool = False
    error: CommandError | None = None
    positions: list[tuple[int, bytes]] = field(default_factory=list)
    """With ``track``: the number of events and the stream's resume token after each batch."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The definition of a stream, which can be run any number of times."""

    history: History
    scope: Scope
    spec: Mapping[str, Any] = field(default_factory=dict)
    pipeline: Pipeline = ()
    raw_data: bool = False

    def resumed(self, **start: Any) -> "Stream":
        """The same stream from another point."""
        kept = {name: value for name, value in self.spec.items() if name not in RESUME_OPTIONS}
        return Stream(self.history, self.scope, kept | start, self.pipeline, self.raw_data)

    def after(self, token: Mapping[str, Any]) -> "Stream":
        """The same stream after a token; the token of an invalidate event needs `startAfter`."""
        invalidated = ResumeToken.parse(bsondocs.encode(token)).from_invalidate
        return self.resumed(**{"startAfter" if invalidated else "resumeAfter": token})

    def run(
        self,
        logs: Sequence[Sequence[bytes]] | None = None,
        batch_size: int | None = None,
        *,
        track: bool = False,
    ) -> Outcome:
        """Push every log to its end, in batches of one shard after another, and drain after each batch.

        With ``track`` the outcome has the stream's position after every batch.
        """
        if logs is None:
            logs = [self.history.entries]
        plan = Plan.open(self.scope, self.spec, self.pipeline, raw_data=self.raw_data)
        names = [""] if len(logs) == 1 else [f"shard{number}" for number in range(len(logs))]
        lookups = {name: self._lookups(log) for name, log in zip(names, logs, strict=True)}
        engine = LocalEngine(plan, lookups)
        outcome = Outcome()
        feeds = {
            name: _batches(_from(log, plan.start or 0), batch_size)
            for name, log in zip(names, logs, strict=True)
        }
        try:
            while feeds and not engine.done:
                for name in list(feeds):
                    batch = next(feeds[name], None)
                    if batch is None:
                        del feeds[name]
                        engine.finish(name)
                    else:
                        engine.push(name, batch)
                    outcome.events += engine.drain()
                    if track:
                        outcome.positions.append((len(outcome.events), engine.post_batch_resume_token))
        except CommandError as error:
            outcome.error = error
        outcome.invalidated = engine.done
        return outcome

    def events(
        self, logs: Sequence[Sequence[bytes]] | None = None, batch_size: int | None = None
    ) -> list[bytes]:
        """The events of a run that must not fail."""
        outcome = self.run(logs, batch_size)
        if outcome.error is not None:
            raise outcome.error
        return outcome.events

    def all_events(self) -> list[bytes]:
        """The events up to the end of the history: after an invalidate event the stream is started again."""
        events = self.events()
        seen = list(events)
        while events and operation_type(events[-1]) == "invalidate":
            events = self.after(token_of(events[-1])).events()
            seen += events
        return seen

    def _lookups(self, log: Sequence[bytes]) -> Lookups:
        if log is self.history.entries:
            return self.history.lookups()
        own = {timestamp_of(entry): entry for entry in log}

        def entry(timestamp: int, term: int) -> bytes | None:
            return self.history.entry(timestamp, term) if timestamp in own else None

        return Lookups(entry, self.history.pre_image, self.history.document)


def _from(log: Sequence[bytes], start: int) -> Sequence[bytes]:
    """The log from the last entry at or before ``start``, where a reader of a long log begins."""
    return log[max(bisect_right(log, start, key=timestamp_of) - 1, 0) :]


def _batches(log: Sequence[bytes], size: int | None) -> Iterator[Sequence[bytes]]:
    size = size or max(len(log), 1)
    return (log[start : start + size] for start in range(0, len(log), size))


def operation_type(event: bytes) -> str:
    """An event's `operationType`."""
    found = rawbson.find(event, b"operationType")
    return "" if found is None else rawbson.string_value(event, found[2], found[3])


def token_of(event: bytes) -> dict[str, Any]:
    """An event's `_id`."""
    found = rawbson.subdocument(event, b"_id")
    if found is None:
        raise ValueError("an event without _id")
    return bsondocs.decode(found)


def cluster_time_of(event: bytes) -> int:
    """An event's `clusterTime` as a number."""
    found = rawbson.find(event, b"clusterTime")
    if found is None:
        raise ValueError("an event without clusterTime")
    return int(rawbson.UINT64_LE.unpack_from(event, found[2])[0])


def transaction_index_of(event: bytes) -> int:
    """An event's position in its transaction, from its token."""
    return ResumeToken.parse(rawbson.subdocument(event, b"_id") or rawbson.EMPTY).txn_op_index


def with_token(event: bytes, token: bytes) -> bytes:
    """The event with another token."""
    parts = []
    for kind, name, start, end in rawbson.elements(event):
        value = token if name == b"_id" else event[start:end]
        parts.append(rawbson.element(kind, name, value))
    return rawbson.document(*parts)
