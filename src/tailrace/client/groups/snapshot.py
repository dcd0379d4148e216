"""Read the documents that a group delivers before the changes.

Some documents are read at a time, at one cluster time for as long as the server has it, in the order of
`_id`. No cursor is open in between: handlers may take any time.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import bson
from bson import Binary, MaxKey
from bson.binary import UUID_SUBTYPE
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.errors import OperationFailure

from tailrace.bson import documents as bsondocs
from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.bson.keystring import decode_value
from tailrace.client.flow import Flow
from tailrace.client.groups.read_positions import (
    END,
    ReadCollection,
    Segments,
    extended,
    place_of,
    segments_of,
    stream_token,
)
from tailrace.client.options import Document, Pipeline
from tailrace.client.token_order import READ
from tailrace.error_codes import ErrorCode
from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.layout.read_event import ReadEventFrame
from tailrace.query.match import compile_match
from tailrace.sources.deployments.collections import is_ordinary
from tailrace.sources.deployments.document_range import NO_SNAPSHOTS

DOCUMENTS_AT_ONCE: Final = 1000
_RAW: Final = CodecOptions(document_class=RawBSONDocument)
_TOO_OLD: Final = frozenset({int(ErrorCode.SnapshotTooOld), int(ErrorCode.SnapshotUnavailable)})
_NO_INDEX: Final = 51173  # of a collection that was just dropped
_GONE: Final = frozenset({
    int(ErrorCode.NamespaceNotFound), int(ErrorCode.QueryPlanKilled), int(ErrorCode.BadValue), _NO_INDEX,
})  # fmt: skip


def listing(client: Any, namespace: str, hidden: Sequence[str]) -> Flow[tuple[ReadCollection, ...]]:
    """The collections that a group reads, in this order."""
    database, _, collection = namespace.partition(".")
    names = [database]
    if not database:
        reply = yield partial(client.admin.command, "listDatabases", nameOnly=True)
        names = [each["name"] for each in reply["databases"]]
    found: list[ReadCollection] = []
    for name in names:
        wanted = {"name": collection} if collection else {}
        for listed in (yield from _listed(client, name, wanted)):
            full = f"{name}.{listed['name']}"
            if listed["type"] != "collection" or not is_ordinary(full) or full in hidden:
                continue
            if "collation" in listed["options"]:
                raise UsageError(
                    f"{full} has a collation, so its documents have another order than their positions; "
                    "consume without a snapshot, or name other collections"
                )
            if listed["options"].get("capped"):
                raise UsageError(
                    f"{full} is capped, and has no snapshots; consume without a snapshot, or name other "
                    "collections"
                )
            found.append(ReadCollection(full, _uuid(listed)))
    return tuple(sorted(found))


def _listed(client: Any, database: str, wanted: Mapping[str, Any]) -> Flow[list[dict[str, Any]]]:
    ask = partial(client[database].command, codec_options=CodecOptions())
    reply = yield partial(ask, {"listCollections": 1, "filter": wanted, "cursor": {"batchSize": 1 << 20}})
    found: list[dict[str, Any]] = reply["cursor"]["firstBatch"]
    if reply["cursor"]["id"]:
        raise UsageError(f"{database} has too many collections for a snapshot; name one of them")
    return found


def _uuid(listed: Mapping[str, Any]) -> str:
    return bytes(listed.get("info", {}).get("uuid") or b"").hex()


def filters_of(pipeline: Pipeline) -> list[Callable[[Any], bool]]:
    """What the events of documents that were read have to match."""
    if any(set(stage) != {"$match"} for stage in pipeline):
        raise UsageError("a group that begins with a snapshot may have only $match in its pipeline")
    return [compile_match(stage["$match"], in_order=True) for stage in pipeline]


class SnapshotReader:
    """Reads on from a position."""

    def __init__(
        self,
        target: Any,
        client: Any,
        collections: Sequence[ReadCollection],
        start: Document,
        pipeline: Pipeline,
    ) -> None:
        self._client = client
        self._codec_options = target.codec_options
        self._collections = collections
        self._token = stream_token(start)
        self._filters = filters_of(pipeline)
        self._found: deque[tuple[str, Any]] = deque()
        """Places and events that were read, and not returned"""
        self._number = int(start[READ][:8] or "0", 16)
        self._last = start[READ][8:]
        """The key of the last document that was read of this collection"""
        self._at: int | None = None
        self._place: str = start[READ]
        self.segments: Segments = segments_of(start)

    @property
    def position(self) -> dict[str, Any]:
        return {**self._token, READ: self._place}

    @property
    def has_more(self) -> bool:
        """Whether an event can be returned at once."""
        return bool(self._found)

    @property
    def is_over(self) -> bool:
        return self._place == END

    def next_event(self) -> Flow[Any]:
        """The event of the next document; None after the last one, or if there is none yet."""
        if not self._found:
            if self._number == len(self._collections):
                self._place = END
                return None
            yield from self._reading()
            if not self._found:
                return None
        self._place, event = self._found.popleft()
        return event

    def _reading(self) -> Flow[None]:
        collection = self._collections[self._number]
        if self._at is None:
            reply = yield partial(self._client.admin.command, "ping")
            self._at = from_timestamp(reply["operationTime"])
        at = self._at
        try:
            documents = yield from self._next_documents(collection.namespace, at)
        except OperationFailure as error:
            if error.code in _TOO_OLD:
                self._at = None
                return
            if error.code in NO_SNAPSHOTS:
                raise UsageError(
                    f"a snapshot of {collection.namespace} needs MongoDB 5.0 or later"
                ) from error
            if error.code not in _GONE or (yield from self._is_there(collection)):
                raise
            documents = []
        # A server looks for the collection that has the name now, whatever the time of the snapshot.
        is_there = yield from self._is_there(collection)
        if not documents or not is_there:
            self._number, self._last = self._number + 1, ""
            return
        frame = ReadEventFrame(collection.namespace, at)
        for document in documents:
            place = place_of(self._number, document)
            self.segments = extended(self.segments, place, at)
            raw = frame.event(bsondocs.encode({**self._token, READ: place}), document)
            if all(matches(bsondocs.decode(raw)) for matches in self._filters):
                self._found.append((place, bson.decode(raw, self._codec_options)))
        self._last = place[8:]
        if not self._found:
            self._place = place

    def _next_documents(self, namespace: str, at: int) -> Flow[list[bytes]]:
        database, _, collection = namespace.partition(".")
        query: dict[str, Any] = {
            "find": collection,
            "hint": {"_id": 1},
            "limit": DOCUMENTS_AT_ONCE,
            "singleBatch": True,
            "batchSize": DOCUMENTS_AT_ONCE,
            "readConcern": {"level": "snapshot", "atClusterTime": to_timestamp(at)},
        }
        if self._last:
            kind, value = decode_value(bytes.fromhex(self._last))
            if kind == rawbson.MAX_KEY:
                return []
            query["min"] = RawBSONDocument(rawbson.document(rawbson.element(kind, b"_id", value)))
        ask = partial(self._client[database].command, codec_options=_RAW)
        reply = yield partial(ask, query)
        found = _after(reply, self._last)
        if not found and self._last:
            # A range without an upper bound ends before the greatest of all values.
            del query["min"]
            query["filter"] = {"_id": MaxKey()}
            found = _after((yield partial(ask, query)), self._last)
        return found

    def _is_there(self, collection: ReadCollection) -> Flow[bool]:
        database, _, name = collection.namespace.partition(".")
        uuid = Binary(bytes.fromhex(collection.uuid), UUID_SUBTYPE)
        for listed in (yield from _listed(self._client, database, {"info.uuid": uuid})):
            if listed["name"] == name:
                return True
            raise UsageError(
                f"{collection.namespace} was renamed during its snapshot; begin again with another group"
            )
        return False


def _after(reply: Any, last: str) -> list[bytes]:
    """The documents of a reply without the last one that was read before."""
    found = [each.raw for each in reply["cursor"]["firstBatch"]]
    if found and last and id_key(found[0]).hex() == last:
        del found[0]
    return found
