"""A change stream of the whole deployment, as raw batches with the position after each."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.recovered.entries import RECORDED, recorded_pipeline
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stream_release import StreamRelease
from tailrace.sources.deployments.clients import Client

_RAW: Final[CodecOptions[RawBSONDocument]] = CodecOptions(document_class=RawBSONDocument)
_COLLECTION: Final = "$cmd.aggregate"
_AT_ONCE_MS: Final = 1
"""How long a server waits that is only asked whether there is more."""


class EventBatch(NamedTuple):
    events: list[bytes]
    position: int
    """The cluster time of the stream's position after them."""


class EventCursor:
    """The stream from a cluster time on; it shows what happened at that time, too."""

    def __init__(
        self, client: Client, session: ClientSession, release: StreamRelease, most: int | None
    ) -> None:
        """``most`` is how many events a batch may have."""
        self._client = client
        self._session = session
        self._release = release
        self._limit = {} if most is None else {"batchSize": most}
        self._id = 0

    @property
    def is_open(self) -> bool:
        return self._id != 0

    def open(self, start: int, known: int) -> EventBatch:
        """Return the first batch, from a member that has reached the time ``known``."""
        spec = {**RECORDED, "startAtOperationTime": to_timestamp(start)}
        return self._run(
            {
                "aggregate": 1,
                "pipeline": [{"$changeStream": spec}, *recorded_pipeline(self._release)],
                "cursor": self._limit,
                "readConcern": {"level": "majority", "afterClusterTime": to_timestamp(known)},
            }
        )

    def next(self, await_ms: int = _AT_ONCE_MS) -> EventBatch:
        """Return the next batch; if it is empty, there was nothing more."""
        command = {"getMore": bson.Int64(self._id), "collection": _COLLECTION, **self._limit}
        return self._run({**command, "maxTimeMS": await_ms})

    def close(self) -> None:
        if self._id:
            command = {"killCursors": _COLLECTION, "cursors": [bson.Int64(self._id)]}
            with suppress(PyMongoError):
                self._client.admin.command(command, session=self._session)

    def _run(self, command: dict[str, Any]) -> EventBatch:
        reply = self._client.admin.command(
            command,
            codec_options=_RAW,
            session=self._session,
            read_preference=self._client.read_preference,
        )
        cursor = rawbson.subdocument(bytes(reply.raw), b"cursor")
        token = None if cursor is None else rawbson.subdocument(cursor, b"postBatchResumeToken")
        if cursor is None or token is None:
            raise BsonError("a reply of the source's change stream has no position")
        found = rawbson.field(cursor, b"id")
        self._id = 0 if found is None else int.from_bytes(found[1], "little", signed=True)
        batch = rawbson.field(cursor, b"firstBatch") or rawbson.field(cursor, b"nextBatch")
        array = rawbson.EMPTY if batch is None else batch[1]
        places = rawbson.subdocument_places(array, 0)
        return EventBatch(
            [array[place[0] : place[1]] for place in places if place is not None],
            ResumeToken.parse(token).cluster_time,
        )


@contextmanager
def event_cursor(client: Client, release: StreamRelease, most: int | None = None) -> Iterator[EventCursor]:
    """A cursor that is closed with the block."""
    with client.start_session(causal_consistency=False) as session:
        cursor = EventCursor(client, session, release, most)
        try:
            yield cursor
        finally:
            cursor.close()
