"""Streams of the real server as raw bytes, up to a time."""

import re
from collections.abc import Iterator
from typing import Any, Final

from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.bson import documents as bsondocs
from tests.oracle.replay.stream_case import Part, StreamCase
from tests.support.client_workload import RAW_OPTIONS, raw_document
from tests.support.streams import token_of

ON_A_VIEW: Final = 166
_TIME: Final = re.compile(r"82([0-9A-F]{8})([0-9A-F]{8})")
_MOST_PARTS: Final = 40


def time_of(token: dict[str, Any]) -> Timestamp:
    """The cluster time of a resume token, read without Tailrace."""
    found = _TIME.match(token["_data"])
    assert found is not None, token
    return Timestamp(int(found[1], 16), int(found[2], 16))


def is_invalidate(event: bytes) -> bool:
    """Whether an event ends its stream; a stage may have changed its type."""
    return bsondocs.decode(event).get("operationType") == "invalidate"


class RealStreams:
    """Streams of one server that see nothing after a time."""

    def __init__(self, client: "MongoClient[Any]", end: Timestamp) -> None:
        self._client = client
        self.end = end

    def parts(self, case: StreamCase) -> Iterator[tuple[StreamCase, Part]]:
        """Read a stream; after an invalidation it is opened again, after that event."""
        for _ in range(_MOST_PARTS):
            part = self.read(case)
            yield case, part
            if part.error is not None or not part.events or not is_invalidate(part.events[-1]):
                return
            case = case.starting(startAfter=token_of(part.events[-1]))

    def read(self, case: StreamCase) -> Part:
        """Read a stream to the time, or to its error or invalidation.

        The server loses the events before an error that are in the same batch: then they are read one by one.
        """
        part = self._read(case, 1000)
        return part if part.error is None else self._read(case, 1)

    def _read(self, case: StreamCase, size: int) -> Part:
        events: list[bytes] = []
        database = self._client.get_database(case.database or "admin")
        try:
            command = case.command()
            # Stages may have values that PyMongo cannot represent.
            command["pipeline"] = [raw_document(stage) for stage in command["pipeline"]]
            cursor = database.command(command, codec_options=RAW_OPTIONS)["cursor"]
            while cursor["id"]:
                name = cursor["ns"].partition(".")[2]
                more = {"getMore": cursor["id"], "collection": name, "batchSize": size, "maxTimeMS": 1}
                cursor = database.command(more, codec_options=RAW_OPTIONS)["cursor"]
                for event in cursor["nextBatch"]:
                    raw = bytes(event.raw)
                    if time_of(token_of(raw)) > self.end:
                        break
                    events.append(raw)
                position = bytes(cursor["postBatchResumeToken"].raw)
                if time_of(bsondocs.decode(position)) >= self.end and not cursor["nextBatch"]:
                    if cursor["id"]:
                        database.command({"killCursors": name, "cursors": [cursor["id"]]})
                    return Part(events, end=position)
        except OperationFailure as error:
            return Part(events, error.code)
        # A filter may hide the invalidate event, but the server closes the cursor nevertheless.
        return Part(events)
