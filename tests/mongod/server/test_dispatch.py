"""Shared by all commands: names, generic arguments, times, internal errors."""

import asyncio

import pytest
from bson import Binary, Decimal128, Int64, Timestamp
from bson.son import SON
from pymongo import MongoClient
from pymongo.errors import ExecutionTimeout, OperationFailure

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode
from tailrace.mongod.wire import ClientConnection
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running

SESSION = {"id": Binary(bytes(range(16)), 4)}


def failure_of(client: MongoClient[Document], command: Document, database: str = "admin") -> OperationFailure:
    with pytest.raises(OperationFailure) as failure:
        client[database].command(SON(command))
    return failure.value


def test_an_unknown_command(client: MongoClient[Document]) -> None:
    error = failure_of(client, {"atlasVersion": 1})
    assert error.code == 59
    assert error.details is not None
    assert error.details["codeName"] == "CommandNotFound"
    assert error.details["errmsg"] == "no such command: 'atlasVersion'"


def test_an_admin_command_on_another_database(client: MongoClient[Document]) -> None:
    error = failure_of(client, {"getLog": "*"}, "shop")
    assert error.code == 13
    assert "may only be run against the admin database" in str(error)


def test_an_unknown_field(client: MongoClient[Document]) -> None:
    error = failure_of(client, {"ping": 1, "pong": 1})
    assert error.code == 40415
    assert "BSON field 'ping.pong' is an unknown field." in str(error)


def test_a_missing_and_a_mistyped_field(client: MongoClient[Document]) -> None:
    missing = failure_of(client, {"distinct": "c"})
    assert missing.code == 40414
    assert "BSON field 'distinct.key' is missing but a required field" in str(missing)
    assert failure_of(client, {"appendOplogNote": 1}).code == 4
    mistyped = failure_of(client, {"appendOplogNote": 1, "data": 5})
    assert mistyped.code == 14
    words = "BSON field 'appendOplogNote.data' is the wrong type 'int', expected type 'object'"
    assert words in str(mistyped)
    null = failure_of(client, {"appendOplogNote": 1, "data": None})
    assert null.code == 14
    assert failure_of(client, {"distinct": "c", "key": None}).code == 40414


def test_a_repeated_field(server: RunningServer) -> None:
    body = rawbson.document(
        rawbson.body(encode({"ping": 1, "comment": 1, "$db": "admin"})), rawbson.body(encode({"comment": 2}))
    )
    with raw_client(server) as raw:
        raw.socket.sendall(ClientConnection().send(body))
        assert decode(raw.receive().document)["code"] == 40413


SIGNATURE: Document = {"signature": {"hash": Binary(bytes(20)), "keyId": Int64(0)}}


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a/b", "a\\b", 'a"b', "x" * 64])
def test_invalid_database_names(server: RunningServer, name: str) -> None:
    with raw_client(server) as raw:
        assert raw.call({"ping": 1, "$db": name})["code"] == 73


def test_a_dollar_sign_in_a_database_name(server: RunningServer) -> None:
    with raw_client(server) as raw:
        assert raw.call({"insert": "c", "documents": [{}], "$db": "a$b"})["code"] == 73
        assert raw.call({"ping": 1, "$db": "a$b"})["ok"] == 1.0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"apiVersion": "2"}, 322),
        ({"apiVersion": 1}, 14),
        ({"apiStrict": True}, 4886600),
        ({"apiVersion": "1", "apiStrict": 1}, 14),
        ({"maxTimeMS": "soon"}, 2),
        ({"maxTimeMS": None}, 2),
        ({"maxTimeMS": -1}, 2),
        ({"maxTimeMS": 2**31}, 2),
        ({"maxTimeMS": 1.5}, 2),
        ({"readConcern": 1}, 9),
        ({"readConcern": {"level": "some"}}, 9),
        ({"readConcern": {"level": None}}, 14),
        ({"readConcern": {"provenance": "some"}}, 2),
        ({"readConcern": {"afterOpTime": {}}}, 4),
        ({"readConcern": {"level": "available", "afterClusterTime": Timestamp(1, 1)}}, 72),
        ({"readConcern": {"level": "majority"}}, 72),
        ({"readConcern": {"afterClusterTime": 1}}, 14),
        ({"readConcern": {"afterClusterTime": Timestamp(0, 0)}}, 72),
        ({"readConcern": {"level": "local", "atClusterTime": Timestamp(1, 1)}}, 72),
        ({"readConcern": {"unknown": 1}}, 72),
        ({"writeConcern": {"w": 1}}, 72),
        ({"insert": "c", "documents": [{}], "writeConcern": {"w": -1}}, 9),
        ({"insert": "c", "documents": [{}], "writeConcern": {"w": True}}, 9),
        ({"insert": "c", "documents": [{}], "writeConcern": {"w": 51}}, 9),
        ({"insert": "c", "documents": [{}], "writeConcern": "majority"}, 14),
        ({"$readPreference": {"mode": "closest"}}, 2),
        ({"$readPreference": {"mode": "nearest", "maxStalenessSeconds": 1}}, 160),
        ({"$readPreference": {"mode": 1}}, 14),
        ({"$readPreference": {"mode": "primary", "tags": [{"dc": "ny"}]}}, 2),
        ({"$clusterTime": 1}, 10065),
        ({"$clusterTime": {}}, 4),
        ({"$clusterTime": {"clusterTime": Timestamp(1, 1)}}, 4),
        ({"$clusterTime": {"clusterTime": 1}}, 14),
        ({"lsid": 1}, 14),
        ({"lsid": {}}, 40414),
        ({"lsid": {"id": "me"}}, 14),
        ({"lsid": {"id": Binary(b"short", 4)}}, 207),
        ({"lsid": {**SESSION, "extra": 1}}, 40415),
        ({"lsid": SESSION, "txnNumber": Int64(1)}, 50889),
        ({"find": "c", "lsid": SESSION, "txnNumber": Int64(1)}, 50768),
        ({"lsid": SESSION, "txnNumber": "one"}, 14),
        ({"find": "c", "lsid": SESSION, "txnNumber": Int64(-1)}, 72),
        ({"find": "c", "txnNumber": Int64(1)}, 72),
        ({"find": "c", "lsid": SESSION, "autocommit": False}, 72),
        ({"find": "c", "lsid": SESSION, "startTransaction": True}, 72),
        ({"find": "c", "lsid": SESSION, "txnNumber": Int64(1), "autocommit": True}, 72),
        ({"find": "c", "lsid": SESSION, "txnNumber": Int64(1), "startTransaction": True}, 72),
        (
            {
                "find": "c",
                "lsid": SESSION,
                "txnNumber": Int64(1),
                "autocommit": False,
                "startTransaction": False,
            },
            72,
        ),
        ({"lsid": SESSION, "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}, 263),
    ],
)
def test_generic_arguments_are_checked(server: RunningServer, fields: Document, code: int) -> None:
    with raw_client(server) as raw:
        command = {} if {"find", "insert"} & fields.keys() else {"ping": 1}
        reply = raw.call({**command, **fields})
        assert reply["code"] == code
        assert reply["ok"] == 0.0
        assert raw.call({"ping": 1})["ok"] == 1.0


def test_generic_arguments_are_accepted(server: RunningServer) -> None:
    everything: Document = {
        "apiVersion": "1", "apiStrict": True, "apiDeprecationErrors": True, "maxTimeMS": 1000, "comment": [1],
        "readConcern": {"level": "local"}, "$readPreference": {"mode": "secondaryPreferred", "tags": [{}]},
        "lsid": SESSION, "$audit": 1, "clientOperationKey": Binary(bytes(16), 4), "stmtId": 1,
    }  # fmt: skip
    with raw_client(server) as raw:
        assert raw.call({"ping": 1, **everything})["ok"] == 1.0


def test_commands_outside_of_the_stable_api_are_refused(client: MongoClient[Document]) -> None:
    assert failure_of(client, {"getLog": "*", "apiVersion": "1", "apiStrict": True}).code == 323
    assert client.admin.command({"getLog": "*", "apiVersion": "1"})["ok"] == 1.0


def test_a_number_is_accepted_as_a_boolean(client: MongoClient[Document]) -> None:
    for value in (1, 1.0, Int64(1), Decimal128("1"), True):
        status = client.admin.command({"connectionStatus": 1, "showPrivileges": value})
        assert "authenticatedUserPrivileges" in status["authInfo"]
    assert failure_of(client, {"connectionStatus": 1, "showPrivileges": "yes"}).code == 14


def test_help_is_returned_instead_of_running(client: MongoClient[Document]) -> None:
    assert "End the server" in client.admin.command({"shutdown": 1, "help": True})["help"]
    assert client.admin.command("ping")["ok"] == 1.0


def test_max_time_ends_a_wait(client: MongoClient[Document]) -> None:
    with pytest.raises(ExecutionTimeout) as failure:
        client.admin.command({"waitForFailPoint": "failCommand", "timesEntered": 1_000_000, "maxTimeMS": 30})
    assert failure.value.code == 50


def test_an_internal_error_is_one_reply_and_one_log_line(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    # A missing part causes an internal error.
    own_server.server.first.cluster_parameters = None  # type: ignore[assignment]
    error = failure_of(own_client, {"getClusterParameter": "*"})
    assert error.code == 1
    assert "Traceback" not in str(error)
    faults = [line for line in own_server.log() if line["s"] == "E"]
    assert len(faults) == 1
    assert faults[0]["attr"]["command"] == "getClusterParameter"
    assert own_client.admin.command("ping")["ok"] == 1.0


# -- time -------------------------------------------------------------------------------------------------


def test_replies_carry_the_times(client: MongoClient[Document]) -> None:
    reply = client.admin.command("ping")
    assert list(reply)[-2:] == ["$clusterTime", "operationTime"]
    assert reply["operationTime"] <= reply["$clusterTime"]["clusterTime"]
    assert reply["$clusterTime"]["signature"] == {"hash": bytes(20), "keyId": 0}
    error = failure_of(client, {"nothing": 1})
    assert error.details is not None
    assert error.details["operationTime"] == reply["operationTime"]


def test_a_note_advances_the_time(client: MongoClient[Document]) -> None:
    before = client.admin.command("ping")["operationTime"]
    after = client.admin.command({"appendOplogNote": 1, "data": {"a": 1}})["operationTime"]
    assert after > before


def test_a_client_advances_the_clock(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        now = raw.call({"ping": 1})["$clusterTime"]["clusterTime"]
        ahead = Timestamp(now.time + 1000, 5)
        reply = raw.call({"ping": 1, "$clusterTime": {"clusterTime": ahead, **SIGNATURE}})
        assert reply["$clusterTime"]["clusterTime"] == ahead
        assert reply["operationTime"] < ahead
        note = raw.call({"appendOplogNote": 1, "data": {}})
        assert note["operationTime"] > ahead
        far = Timestamp(now.time + 2 * 366 * 86400, 1)
        refused = raw.call({"ping": 1, "$clusterTime": {"clusterTime": far, **SIGNATURE}})
        assert refused["ok"] == 0.0
        assert refused["$clusterTime"]["clusterTime"] == note["$clusterTime"]["clusterTime"]


def test_a_read_waits_for_the_time_it_asks_for(own_server: RunningServer) -> None:
    with raw_client(own_server) as raw:
        now = raw.call({"ping": 1})["$clusterTime"]["clusterTime"]
        ahead = Timestamp(now.time + 5, 1)
        concern = {"readConcern": {"afterClusterTime": ahead}}
        assert raw.call({"count": "c", **concern})["code"] == 72  # this time is in the future
        reply = raw.call({"count": "c", "$clusterTime": {"clusterTime": ahead, **SIGNATURE}, **concern})
        assert reply["ok"] == 1.0
        assert reply["operationTime"] > ahead


def test_an_idle_server_writes_no_ops(own_server: RunningServer) -> None:
    before = own_server.server.last_write_time()
    own_server.call(own_server.server.first.background.run_all())
    own_server.call(own_server.server.first.background.run_all())
    assert own_server.server.last_write_time() > before


def test_a_busy_server_writes_no_no_ops(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    own_server.call(own_server.server.first.background.run_all())
    own_client.admin.command({"appendOplogNote": 1, "data": {}})
    before = own_server.server.last_write_time()
    own_server.call(own_server.server.first.background.run_all())
    assert own_server.server.last_write_time() == before


def test_no_ops_can_be_switched_off() -> None:
    with running(parameters={"writePeriodicNoops": "false"}) as server:
        before = server.server.last_write_time()
        for _ in range(3):
            server.call(server.server.first.background.run_all())
        assert server.server.last_write_time() == before


def test_no_ops_are_written_in_the_background() -> None:
    with running(parameters={"periodicNoopIntervalSecs": 1}) as server, connected(server) as client:
        wanted = client.admin.command("ping")["operationTime"]

        async def moved() -> None:
            async with asyncio.timeout(10):
                while server.server.last_write_time() <= (wanted.time << 32 | wanted.inc):
                    await asyncio.sleep(0.02)

        server.call(moved())
