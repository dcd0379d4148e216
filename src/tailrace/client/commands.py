"""The three commands of a change stream, as documents.

A command that waits must not get PyMongo's remaining time as its `maxTimeMS`: on a getMore that field is how
long the server waits for events. `Waiting` keeps it as it was made.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from tailrace.client.options import Document, Pipeline, StreamOptions, Target

GET_MORE_COMMENT_SINCE: Final = 9
"""The wire version of MongoDB 4.4: before it, a getMore took no comment."""


class Waiting(OrderedDict[str, Any]):
    """A command whose `maxTimeMS` is what its maker said, or absent."""

    def __init__(self, body: Document) -> None:
        super().__init__(body)
        self._sealed = True

    def __setitem__(self, name: str, value: object) -> None:
        if name == "maxTimeMS" and getattr(self, "_sealed", False):
            return
        super().__setitem__(name, value)


@dataclass(frozen=True, slots=True)
class Command:
    """One command to send: the database it runs on, and its document."""

    database: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """The command's name: its first field."""
        return next(iter(self.body))


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor on a server. The namespace is the one that the server named."""

    id: int
    database: str
    collection: str


def aggregate(target: Target, start: Document, pipeline: Pipeline, options: StreamOptions) -> Command:
    """The command that opens a stream at these start points; ``start`` replaces those of the options."""
    stage = {name: value for name, value in options.stage.items() if name not in options.start}
    stage |= start
    if target.whole_cluster:
        stage["allChangesForCluster"] = True
    cursor = {} if options.batch_size is None else {"batchSize": options.batch_size}
    body: dict[str, Any] = {
        "aggregate": target.aggregate,
        "pipeline": [{"$changeStream": stage}, *pipeline],
        "cursor": cursor,
        **options.command,
    }
    if options.collation is not None:
        body["collation"] = options.collation
    if options.comment is not None:
        body["comment"] = options.comment
    return Command(target.database, body)


def get_more(cursor: Cursor, options: StreamOptions, wire_version: int) -> Command:
    """The command that asks for the next batch, and waits for it."""
    body: dict[str, Any] = {"getMore": cursor.id, "collection": cursor.collection}
    if options.batch_size:
        body["batchSize"] = options.batch_size
    if options.max_await_time_ms is not None:
        body["maxTimeMS"] = options.max_await_time_ms
    if options.comment is not None and wire_version >= GET_MORE_COMMENT_SINCE:
        body["comment"] = options.comment
    return Command(cursor.database, Waiting(body))


def kill_cursors(cursor: Cursor) -> Command:
    """The command that frees a cursor."""
    return Command(cursor.database, {"killCursors": cursor.collection, "cursors": [cursor.id]})
