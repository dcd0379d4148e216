"""Streams over the wire, command by command, that return the exact bytes of the server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import monotonic
from typing import Any

from bson import Int64, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.client_session import ClientSession

from tailrace.bson import documents as bsondocs
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.resume_token import ResumeToken
from tests.support.client_workload import RAW_OPTIONS
from tests.support.folding import Fold
from tests.support.history import Documents
from tests.support.streams import RESUME_OPTIONS, cluster_time_of, operation_type, token_of

SECONDS = 30

Batch = tuple[list[bytes], dict[str, Any]]
"""Events, and the position after them."""


@dataclass(frozen=True)
class WireStream:
    """A stream on a server; `namespace` is a collection, a database, or empty for the cluster."""

    client: "MongoClient[Any]"
    namespace: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)
    pipeline: Sequence[Mapping[str, Any]] = ()
    sizes: Sequence[int] = (101,)
    """Batch sizes, used in turn."""

    def resumed(self, **start: Any) -> "WireStream":
        """Return the same stream with another start."""
        kept = {name: value for name, value in self.spec.items() if name not in RESUME_OPTIONS}
        return replace(self, spec={**kept, **start})

    def after(self, event: bytes) -> "WireStream":
        """Return the same stream resumed after an event; after an invalidation that needs `startAfter`."""
        option = "startAfter" if operation_type(event) == "invalidate" else "resumeAfter"
        return self.resumed(**{option: token_of(event)})

    def read(self, end: Timestamp) -> list[Batch]:
        """Return the batches up to a cluster time or the stream's end, each with the position after it."""
        with self.client.start_session() as session:
            return self._read(end, session)

    def events(self, end: Timestamp) -> list[bytes]:
        """Return the events of all batches."""
        return [event for batch, _ in self.read(end) for event in batch]

    def all_events(self, end: Timestamp) -> list[bytes]:
        """Return the events up to a time; the stream is restarted after every invalidation."""
        events = self.events(end)
        seen = list(events)
        while events and operation_type(events[-1]) == "invalidate":
            events = self.after(events[-1]).events(end)
            seen += events
        return seen

    def _read(self, end: Timestamp, session: ClientSession) -> list[Batch]:
        database, _, collection = self.namespace.partition(".")
        spec = dict(self.spec) if database else {**self.spec, "allChangesForCluster": True}
        target = self.client[database or "admin"]
        reply: Any = target.command(
            "aggregate",
            collection or 1,
            pipeline=[{"$changeStream": spec}, *self.pipeline],
            cursor={"batchSize": self.sizes[0]},
            codec_options=RAW_OPTIONS,
            session=session,
        )
        batches = [_batch(reply, "firstBatch")]
        deadline = monotonic() + SECONDS
        while (cursor_id := reply["cursor"]["id"]) and (batches[-1][0] or time_of(batches[-1][1]) < end):
            assert monotonic() < deadline, f"the stream does not reach {end}: {batches[-1][1]}"
            reply = target.command(
                "getMore",
                Int64(cursor_id),
                collection=reply["cursor"]["ns"].partition(".")[2],
                batchSize=self.sizes[len(batches) % len(self.sizes)],
                maxTimeMS=20,
                codec_options=RAW_OPTIONS,
                session=session,
            )
            batches.append(_batch(reply, "nextBatch"))
        if cursor_id:
            name = reply["cursor"]["ns"].partition(".")[2]
            target.command("killCursors", name, cursors=[Int64(cursor_id)], session=session)
        return batches


def _batch(reply: RawBSONDocument, name: str) -> Batch:
    cursor = reply["cursor"]
    events = [bytes(event.raw) for event in cursor[name]]
    return events, bsondocs.decode(bytes(cursor["postBatchResumeToken"].raw))


def time_of(token: Mapping[str, Any]) -> Timestamp:
    """Return the cluster time of a token."""
    return to_timestamp(ResumeToken.parse(bsondocs.encode(token)).cluster_time)


def note(client: "MongoClient[Any]") -> Timestamp:
    """Write an oplog entry that no stream shows; return its time, which is after all earlier writes."""
    time: Timestamp = client.admin.command("appendOplogNote", data={"law": 1})["operationTime"]
    return time


def oplog_of(client: "MongoClient[Any]", start: Timestamp | None = None) -> list[bytes]:
    """Return the oplog's entries since a time, as a driver reads them."""
    oplog = client.local.get_collection("oplog.rs", RAW_OPTIONS)
    condition = {} if start is None else {"ts": {"$gte": start}}
    return [bytes(entry.raw) for entry in oplog.find(condition)]


def check_replay(
    events: Iterable[bytes], moments: Iterable[tuple[Timestamp, Documents]], context: object = None
) -> None:
    """Fold events over nothing; compare with the documents at every moment; a failure shows `context`."""
    fold = Fold({})
    rest = iter(events)
    event = next(rest, None)
    for moment, content in moments:
        while event is not None and cluster_time_of(event) <= from_timestamp(moment):
            fold.apply(event)
            event = next(rest, None)
        assert fold.content() == content, context
    assert event is None


def check_order(batches: Sequence[Batch]) -> None:
    """Check that tokens increase, and that the position after a batch is between the events around it."""
    tokens = [token_of(event)["_data"] for batch, _ in batches for event in batch]
    assert all(earlier < later for earlier, later in pairwise(tokens))
    passed = 0
    for batch, position in batches:
        passed += len(batch)
        assert passed == 0 or tokens[passed - 1] <= position["_data"]
        assert passed == len(tokens) or position["_data"] <= tokens[passed]
