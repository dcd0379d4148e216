"""What people try first with a new server, from the shell and from drivers."""

from datetime import UTC, datetime, timedelta

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.database import Database

from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, running

MEGABYTE = 1 << 20


def test_the_shell_can_show_the_range_of_the_oplog() -> None:
    """`rs.printReplicationInfo()` needs a capped oplog with a maximum size."""
    with running(oplog_bytes=3 * MEGABYTE) as server, MongoClient[Document](server.uri) as client:
        reply = client.local.command("collStats", "oplog.rs", scale=1024)
        assert (reply["capped"], reply["maxSize"]) == (True, 3 * 1024)
        (entry,) = client.local["oplog.rs"].aggregate([{"$collStats": {"storageStats": {}}}])
        assert (entry["storageStats"]["capped"], entry["storageStats"]["maxSize"]) == (True, 3 * MEGABYTE)


def test_a_database_without_documents_is_not_empty(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    database.create_collection("c")
    (entry,) = client.admin.command("listDatabases", filter={"name": database.name})["databases"]
    assert entry["empty"] is False


def test_measurements_of_one_time_span_keep_their_order(database: Database[Document]) -> None:
    database.create_collection("weather", timeseries={"timeField": "t", "metaField": "m"})
    start = datetime(2026, 5, 1, tzinfo=UTC)
    for first in (0, 10):
        numbers = range(first, first + 10)
        database.weather.insert_many([{"t": start + timedelta(seconds=n), "m": 1, "v": n} for n in numbers])
    assert [found["v"] for found in database.weather.find()] == list(range(20))


def _with_write_concern_error(raw: RawClient, code: int) -> Document:
    data = {"failCommands": ["insert"], "writeConcernError": {"code": Int64(code), "errmsg": "injected"}}
    raw.call({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data})
    reply = raw.call({"insert": "c", "documents": [{}], "$db": "audit"})
    assert (reply["ok"], reply["writeConcernError"]["code"]) == (1, code)
    return reply


@pytest.mark.parametrize("code", [10107, 189, 11602, 13435, 13436])
def test_a_state_change_as_write_concern_error_has_a_topology_version(
    server: RunningServer, code: int
) -> None:
    """Drivers then see that they know this state, and retry without searching for a primary."""
    with raw_client(server) as raw:
        reply = _with_write_concern_error(raw, code)
        assert reply["topologyVersion"] == raw.call({"hello": 1})["topologyVersion"]
        assert "topologyVersion" not in raw.call({"insert": "c", "documents": [{}], "$db": "audit"})


@pytest.mark.parametrize("code", [91, 11600])
def test_an_injected_shutdown_as_write_concern_error_has_no_topology_version(
    server: RunningServer, code: int
) -> None:
    """Only a server that shuts down adds it."""
    with raw_client(server) as raw:
        assert "topologyVersion" not in _with_write_concern_error(raw, code)
