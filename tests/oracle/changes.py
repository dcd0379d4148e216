"""The changes of documents in a history and in a real server's stream, in a form that both have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
from bson import Timestamp
from pymongo import MongoClient

from tailrace.lake.table import HistoryTable
from tests.support.whole_events import whole_events

Change = tuple[Timestamp, str, str, str]
"""Time, operation, document key, and the document or the fields that were updated."""
DATABASE = "shop"
_OPERATIONS = ("insert", "update", "replace", "delete")


def change_of(event: dict[str, Any]) -> Change:
    content = event.get("fullDocument") or event.get("updateDescription", {}).get("updatedFields")
    key, time = event["documentKey"], event["clusterTime"]
    return time, event["operationType"], repr(key), repr(content)


def changes_in(history: Path, database: str = DATABASE) -> list[Change]:
    """The changes of a database in a history, in its order."""
    found = []
    for batch in HistoryTable.open(history).read(0):
        rows = zip(
            batch.column("db").to_pylist(),
            batch.column("operation").to_pylist(),
            whole_events(batch),
            strict=True,
        )
        found += [
            change_of(bson.decode(event))
            for name, operation, event in rows
            if event is not None and name == database and operation in _OPERATIONS
        ]
    return found


def changes_of(client: MongoClient[dict[str, Any]], end: Timestamp) -> list[Change]:
    """The changes of the database `shop` since the first entry, as the server's own stream shows them."""
    first = client.local["oplog.rs"].find_one()
    assert first is not None
    return [change_of(event) for event in events_of(client, DATABASE, first["ts"], end)]


def events_of(
    client: MongoClient[dict[str, Any]], database: str, start: Timestamp, end: Timestamp
) -> list[dict[str, Any]]:
    """The events of a database between two times, as the server's own stream shows them."""
    return [*_events(client, database, start, end)]


def tokens_of(
    client: MongoClient[dict[str, Any]], database: str, start: Timestamp, end: Timestamp
) -> list[str]:
    """Their tokens: there may be more events than fit into memory."""
    return [event["_id"]["_data"] for event in _events(client, database, start, end)]


def _events(
    client: MongoClient[dict[str, Any]], database: str, start: Timestamp, end: Timestamp
) -> Iterator[dict[str, Any]]:
    with client[database].watch(start_at_operation_time=start, max_await_time_ms=100) as stream:
        while stream.alive:
            event = stream.try_next()
            if event is not None:
                yield dict(event)
            elif _position(stream.resume_token) >= (end.time, end.inc):
                return
    raise AssertionError("the stream was invalidated")


def _position(token: Any) -> tuple[int, int]:
    """The cluster time of a resume token: eight bytes after its type."""
    data = bytes.fromhex(token["_data"])
    return int.from_bytes(data[1:5], "big"), int.from_bytes(data[5:9], "big")
