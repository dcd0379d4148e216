"""Open and read change streams with raw commands."""

import time
from typing import Any

import pytest
from bson import Decimal128, Int64, Timestamp
from pymongo.change_stream import ChangeStream
from pymongo.database import Database

Document = dict[str, Any]
SECONDS = 20
"""The longest wait for an expected event"""


def open_stream(
    database: Database[Document],
    target: str | int | Decimal128 = 1,
    spec: Document | None = None,
    *stages: Document,
    batch_size: int | None = None,
    **options: Any,
) -> Document:
    """The `cursor` in the reply to an aggregate with `$changeStream`."""
    cursor = {} if batch_size is None else {"batchSize": batch_size}
    reply = database.command(
        "aggregate", target, pipeline=[{"$changeStream": spec or {}}, *stages], cursor=cursor, **options
    )
    found: Document = reply["cursor"]
    return found


def get_more(database: Database[Document], cursor: Document, **options: Any) -> Document:
    """The `cursor` in the reply to the next getMore, which does not wait by default."""
    collection = cursor["ns"].partition(".")[2]
    reply = database.command(
        {"getMore": Int64(cursor["id"]), "collection": collection, "maxTimeMS": 1, **options}
    )
    found: Document = reply["cursor"]
    return found


def drain(database: Database[Document], cursor: Document) -> list[Document]:
    """All events: batches until an empty one or the end."""
    events: list[Document] = list(cursor.get("firstBatch", []))
    while cursor["id"]:
        cursor = get_more(database, cursor)
        if not cursor["nextBatch"]:
            break
        events += cursor["nextBatch"]
    return events


def take(stream: ChangeStream[Document], count: int) -> list[Document]:
    """The next events; fails if one does not come in time."""
    events: list[Document] = []
    deadline = time.monotonic() + SECONDS
    while len(events) < count:
        event = stream.try_next()
        if event is not None:
            events.append(dict(event))
        elif time.monotonic() > deadline:
            pytest.fail(f"only {len(events)} of {count} events came")
    return events


def one(stream: ChangeStream[Document]) -> Document:
    return take(stream, 1)[0]


def now(database: Database[Document]) -> Timestamp:
    time: Timestamp = database.command("ping")["operationTime"]
    return time
