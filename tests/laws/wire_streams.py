"""Streams over the wire, command by command: what is read is the very bytes that a server sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

from bson import Int64, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.client_session import ClientSession

from tailrace.bson import documents as bsondocs
from tailrace.events.resume_token import ResumeToken
from tests.support.client_workload import RAW_OPTIONS
from tests.support.streams import RESUME_OPTIONS, operation_type, token_of

SECONDS = 30


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
        """The same stream from another point."""
        kept = {name: value for name, value in self.spec.items() if name not in RESUME_OPTIONS}
        return replace(self, spec={**kept, **start})

    def after(self, event: bytes) -> "WireStream":
        """The same stream behind an event; behind an invalidation that needs `startAfter`."""
        option = "startAfter" if operation_type(event) == "invalidate" else "resumeAfter"
        return self.resumed(**{option: token_of(event)})

    def read(self, end: Timestamp) -> "list[tuple[list[bytes], dict[str, Any]]]":
        """Every batch up to a cluster time or the stream's end, each with the position behind it."""
        with self.client.start_session() as session:
            return self._read(end, session)

    def events(self, end: Timestamp) -> list[bytes]:
        """The events of all batches."""
        return [event for batch, _ in self.read(end) for event in batch]

    def all_events(self, end: Timestamp) -> list[bytes]:
        """The events up to a time; behind an invalidation the stream is started anew."""
        events = self.events(end)
        seen = list(events)
        while events and operation_type(events[-1]) == "invalidate":
            events = self.after(events[-1]).events(end)
            seen += events
        return seen

    def _read(self, end: Timestamp, session: ClientSession) -> "list[tuple[list[bytes], dict[str, Any]]]":
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
            assert monotonic() < deadline, f"the stream does not get to {end}: {batches[-1][1]}"
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


def _batch(reply: RawBSONDocument, name: str) -> tuple[list[bytes], dict[str, Any]]:
    cursor = reply["cursor"]
    events = [bytes(event.raw) for event in cursor[name]]
    return events, bsondocs.decode(bytes(cursor["postBatchResumeToken"].raw))


def time_of(token: Mapping[str, Any]) -> Timestamp:
    """The cluster time that a token names."""
    time = ResumeToken.parse(bsondocs.encode(token)).cluster_time
    return Timestamp(time >> 32, time & 0xFFFFFFFF)


def note(client: "MongoClient[Any]") -> Timestamp:
    """Let the time move on by an entry that no stream shows; its time."""
    time: Timestamp = client.admin.command("appendOplogNote", data={"law": 1})["operationTime"]
    return time


def oplog_of(client: "MongoClient[Any]", start: Timestamp | None = None) -> list[bytes]:
    """The oplog's entries as a driver reads them, from a time on."""
    oplog = client.local.get_collection("oplog.rs", RAW_OPTIONS)
    condition = {} if start is None else {"ts": {"$gte": start}}
    return [bytes(entry.raw) for entry in oplog.find(condition)]
