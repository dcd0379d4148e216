"""Build the three commands of a change stream: aggregate, getMore, killCursors."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from tailrace.client.options import Document, Pipeline, StreamOptions, Target

GET_MORE_COMMENT_SINCE: Final = 9
"""The wire version of MongoDB 4.4, the first whose getMore accepts a comment."""


class GetMoreBody(OrderedDict[str, Any]):
    """The body of a getMore, whose `maxTimeMS` cannot be set or replaced.

    PyMongo sets `maxTimeMS` to the remaining time of a call. On a getMore for a change stream that field is
    how long the server waits for events.
    """

    def __init__(self, body: Document) -> None:
        super().__init__(body)
        self._sealed = True

    def __setitem__(self, name: str, value: object) -> None:
        if name == "maxTimeMS" and getattr(self, "_sealed", False):
            return
        super().__setitem__(name, value)


@dataclass(frozen=True, slots=True)
class Command:
    """A command, and the database that it runs on."""

    database: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        """The name of the first field."""
        return next(iter(self.body))


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor on a server, with the namespace that the server's reply has."""

    id: int
    database: str
    collection: str


def aggregate(target: Target, start: Document, pipeline: Pipeline, options: StreamOptions) -> Command:
    """The command that opens a stream; ``start`` replaces the start points of the options."""
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
    """The command that waits for the next batch."""
    body: dict[str, Any] = {"getMore": cursor.id, "collection": cursor.collection}
    if options.batch_size:
        body["batchSize"] = options.batch_size
    if options.max_await_time_ms is not None:
        body["maxTimeMS"] = options.max_await_time_ms
    if options.comment is not None and wire_version >= GET_MORE_COMMENT_SINCE:
        body["comment"] = options.comment
    return Command(cursor.database, GetMoreBody(body))


def kill_cursors(cursor: Cursor) -> Command:
    """The command that frees a cursor."""
    return Command(cursor.database, {"killCursors": cursor.collection, "cursors": [cursor.id]})
