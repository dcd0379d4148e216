"""The kinds of fields: which types commands take, and what null means, as seen on a real server."""

import socket
from typing import Any

import pytest
from bson import Decimal128, Int64

from tailrace.bson.documents import Undefined
from tailrace.testing.replica_set import ReplicaSet
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer

FIND: Document = {"find": "c"}
AGGREGATE: Document = {"aggregate": "c", "pipeline": [], "cursor": {}}
INSERT: Document = {"insert": "c", "documents": [{}]}


def code(server: RunningServer, command: Document) -> int | None:
    with raw_client(server) as raw:
        found: int | None = raw.call({**command, "$db": "kinds"}).get("code")
        return found


@pytest.mark.parametrize(
    ("command", "field", "value", "expected"),
    [
        (FIND, "singleBatch", 1, 14),  # read by hand: only true and false
        (FIND, "singleBatch", None, 14),
        (FIND, "filter", None, 14),
        (FIND, "let", None, None),  # generated: null is not given
        (FIND, "let", Undefined(), None),
        (FIND, "hint", None, 9),
        (FIND, "collation", {}, None),
        (FIND, "maxTimeMS", None, 2),
        (FIND, "stmtId", "x", None),  # any command may have it
        (AGGREGATE, "allowDiskUse", "x", 14),
        (AGGREGATE, "bypassDocumentValidation", 1.5, None),  # numbers count as true and false
        (AGGREGATE, "aggregate", 2, 9),
        (INSERT, "ordered", 1, 14),
        (INSERT, "ordered", None, None),
        (INSERT, "documents", None, 10065),
        (INSERT, "insert", 1, 2),
        (INSERT, "stmtId", Int64(1), 14),
        ({"count": "c"}, "count", 1, 73),
        ({"count": "c"}, "limit", 1.5, 9),
        ({"count": "c"}, "limit", "x", 2),
        ({"count": "c"}, "readConcern", {"level": "snapshot"}, 72),
        ({"listCollections": 1}, "nameOnly", 1, 14),
        ({"distinct": "c", "key": "a"}, "key", "", 40352),
        ({"update": "c", "updates": [{"q": {}, "u": {}, "multi": 1}]}, "ordered", True, 14),
        ({"ping": 1}, "help", 1, 40415),
        ({"hello": 1}, "nothing", 1, None),
        ({"getLog": "global", "nothing": 1}, "comment", 1, 13),
    ],
)
def test_a_field(server: RunningServer, command: Document, field: str, value: Any, expected: int) -> None:
    assert code(server, {**command, field: value}) == expected


def test_a_decimal_is_rounded_and_a_double_cut(server: RunningServer) -> None:
    with raw_client(server) as raw:
        raw.call({"insert": "rounded", "documents": [{}, {}, {}], "$db": "kinds"})
        for limit, count in ((Decimal128("1.5"), 2), (1.9, 1)):
            reply = raw.call({"find": "rounded", "limit": limit, "$db": "kinds"})
            assert len(reply["cursor"]["firstBatch"]) == count


def test_a_find_on_a_missing_collection_begins_with_the_id(server: RunningServer) -> None:
    with raw_client(server) as raw:
        reply = raw.call({"find": "missing", "batchSize": 0, "$db": "kinds"})
        assert list(reply["cursor"]) == ["id", "ns", "firstBatch"]
        assert reply["cursor"]["id"] == 0


def test_cursors_are_killed_by_their_ids_alone(server: RunningServer) -> None:
    with raw_client(server) as raw:
        raw.call({"insert": "many", "documents": [{}, {}, {}], "$db": "kinds"})
        opened = raw.call({"find": "many", "batchSize": 1, "$db": "kinds"})["cursor"]["id"]
        reply = raw.call({"killCursors": "other", "cursors": [opened], "$db": "kinds"})
        assert reply["cursorsKilled"] == [opened]


@pytest.mark.parametrize(("version", "expected"), [("6.0.27", 51024), ("8.2.1", 2)])
def test_a_number_below_the_minimum(version: str, expected: int) -> None:
    with (
        ReplicaSet(server_version=version) as ours,
        socket.create_connection(("127.0.0.1", ours.server.port), timeout=10) as endpoint,
    ):
        raw = RawClient(endpoint)
        for command in ({"limit": -1}, {"skip": -1}, {"batchSize": -1}):
            assert raw.call({**FIND, **command, "$db": "kinds"})["code"] == expected
