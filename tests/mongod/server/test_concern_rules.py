"""Which commands take which read and write concerns, as seen on MongoDB 6.0.27."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Int64, Timestamp

from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import RunningServer
from tests.mongod.server.transacting import new_lsid, statement

Document = dict[str, Any]
LEVELS = ("local", "available", "majority", "linearizable", "snapshot")
FIND = {"find": "c"}
AGGREGATE: Document = {"aggregate": "c", "pipeline": [], "cursor": {}}
OUT: Document = {**AGGREGATE, "pipeline": [{"$out": "out"}]}
SESSIONS: Document = {"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}}


@pytest.fixture(scope="module", autouse=True)
def documents(shared_server: RunningServer, shared_client: Any) -> Iterator[None]:
    shared_client.test.c.insert_many([{"_id": n, "x": n} for n in range(3)])
    yield
    shared_client.drop_database("test")


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        (FIND, LEVELS),
        (AGGREGATE, LEVELS),
        (OUT, ("local", "available", "majority", "snapshot")),
        (SESSIONS, ("local",)),
        ({"distinct": "c", "key": "x"}, LEVELS),
        ({"count": "c"}, ("local", "available", "majority", "linearizable")),
        ({"listCollections": 1}, ("local",)),
        ({"listIndexes": "c"}, ("local",)),
        ({"listDatabases": 1, "$db": "admin"}, ("local",)),
        ({"explain": FIND}, ("local",)),
        ({"insert": "d", "documents": [{}]}, ("local",)),
        ({"ping": 1}, ("local",)),
    ],
)
def test_levels_outside_of_transactions(raw: RawClient, command: Document, taken: tuple[str, ...]) -> None:
    for level in LEVELS:
        reply = raw.call({**command, "$db": command.get("$db", "test"), "readConcern": {"level": level}})
        assert reply.get("code") == (None if level in taken else 72), level


def test_get_more_takes_a_level_but_no_time(raw: RawClient) -> None:
    for level in LEVELS:
        opened = raw.call({"find": "c", "batchSize": 1, "$db": "test"})
        more = {"getMore": opened["cursor"]["id"], "collection": "c", "$db": "test", "batchSize": 1}
        time = {"afterClusterTime": opened["operationTime"]}
        assert raw.call({**more, "readConcern": {"level": level}})["ok"] == 1.0
        assert raw.call({**more, "readConcern": time})["code"] == 72


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        (FIND, {"available": 72, "linearizable": 72}),
        ({"insert": "c", "documents": [{}]}, {"available": 72, "linearizable": 72}),
        ({"create": "new"}, {"available": 72, "linearizable": 72, "majority": 72, "snapshot": 72}),
        ({"count": "c"}, dict.fromkeys(LEVELS, 263)),
        ({"killCursors": "c", "cursors": [Int64(1)]}, dict.fromkeys(LEVELS, 263)),
        (
            {"getMore": Int64(1), "collection": "c"},
            {**dict.fromkeys(LEVELS, 43), "available": 72, "linearizable": 72},
        ),
    ],
)
def test_levels_in_transactions(raw: RawClient, command: Document, codes: dict[str, int]) -> None:
    for level in LEVELS:
        lsid = new_lsid()
        concern = {"readConcern": {"level": level}, "$db": "test"}
        reply = statement(raw, lsid, 1, {**command, **concern}, start=True)
        assert reply.get("code") == codes.get(level), level
        statement(raw, lsid, 1, {"abortTransaction": 1, "$db": "admin"})


def test_an_empty_read_concern_is_allowed_in_later_statements(raw: RawClient) -> None:
    lsid = new_lsid()
    assert statement(raw, lsid, 1, {**FIND, "$db": "test"}, start=True)["ok"] == 1.0
    assert statement(raw, lsid, 1, {**FIND, "$db": "test", "readConcern": {}})["ok"] == 1.0
    local = {"readConcern": {"level": "local"}}
    assert statement(raw, lsid, 1, {**FIND, "$db": "test", **local})["code"] == 72
    statement(raw, lsid, 1, {"abortTransaction": 1, "$db": "admin"})


@pytest.mark.parametrize(
    "command", [FIND, {"count": "c"}, {"getMore": Int64(1), "collection": "c"}, {"explain": FIND}]
)
def test_reads_take_no_write_concern(raw: RawClient, command: Document) -> None:
    assert raw.call({**command, "$db": "test", "writeConcern": {"w": 1}})["code"] == 72


@pytest.mark.parametrize("name", ["ping", "serverStatus", "validate"])
def test_commands_that_cannot_wait_for_a_time(raw: RawClient, name: str) -> None:
    value = "c" if name == "validate" else 1
    concern = {"afterClusterTime": Timestamp(1, 1)}
    assert raw.call({name: value, "$db": "test", "readConcern": concern})["code"] == 72


def test_replies_name_the_time(raw: RawClient) -> None:
    concern = {"readConcern": {"level": "snapshot"}, "$db": "test"}
    assert isinstance(raw.call({"distinct": "c", "key": "x", **concern})["atClusterTime"], Timestamp)
    assert "atClusterTime" in raw.call({**FIND, **concern})["cursor"]
    assert "atClusterTime" in raw.call({**OUT, **concern})["cursor"]
    assert "atClusterTime" in raw.call({**AGGREGATE, "aggregate": "none", **concern})["cursor"]
    nothing = raw.call({"find": "none", **concern})["cursor"]
    assert list(nothing) == ["id", "ns", "firstBatch"]  # in this order, and without the time


def test_collections_without_snapshots(raw: RawClient) -> None:
    raw.call({"create": "capped", "capped": True, "size": 1000, "$db": "test"})
    concern = {"readConcern": {"level": "snapshot"}}
    assert raw.call({"find": "capped", "$db": "test", **concern})["code"] == 246
    assert raw.call({"find": "oplog.rs", "$db": "local", **concern})["code"] == 246
    assert raw.call({"find": "transactions", "$db": "config", **concern})["code"] == 5557800
    assert (
        statement(raw, new_lsid(), 1, {"find": "capped", "$db": "test", **concern}, start=True)["code"] == 246
    )
    assert statement(raw, new_lsid(), 1, {"find": "capped", "$db": "test"}, start=True)["ok"] == 1.0


def test_defaults(raw: RawClient) -> None:
    def set_default(**fields: Any) -> Document:
        return raw.call({"setDefaultRWConcern": 1, **fields, "$db": "admin"})

    assert set_default(defaultReadConcern={"level": "local", "provenance": "clientSupplied"})["code"] == 2
    assert set_default(defaultWriteConcern={"w": 1, "provenance": "clientSupplied"})["code"] == 2
    assert set_default(defaultWriteConcern={"j": True})["code"] == 2
    assert set_default(defaultReadConcern={}, writeConcern={"w": 5})["code"] == 100
    assert set_default(defaultReadConcern={"level": "available"})["ok"] == 1.0
    assert statement(raw, new_lsid(), 1, {**FIND, "$db": "test"}, start=True)["code"] == 72
    assert set_default(defaultReadConcern={})["ok"] == 1.0
    assert raw.call({"getDefaultRWConcern": 1, "inMemory": True, "$db": "admin"})["inMemory"] is True
