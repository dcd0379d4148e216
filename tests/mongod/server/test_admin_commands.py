"""Commands on the server itself, as mongosh and monitoring tools call them."""

import json
import platform
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for


def code_of(client: MongoClient[Document], command: Document) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        client.admin.command(command)
    return failure.value.code


def test_build_info(client: MongoClient[Document]) -> None:
    info = client.admin.command("buildInfo")
    assert info["version"].startswith("8.")
    assert ".".join(map(str, info["versionArray"][:3])) == info["version"]
    assert info["maxBsonObjectSize"] == 16 * 1024 * 1024
    assert client["shop"].command("buildinfo")["version"] == info["version"]


def test_host_info(client: MongoClient[Document]) -> None:
    info = client.admin.command("hostInfo")
    assert info["os"]["type"] == platform.system()
    assert info["system"]["numCores"] >= 1


def test_the_command_line(tmp_path: Any) -> None:
    options: Document = {"data": tmp_path, "arguments": ("serve", "--port", "0"), "oplog_bytes": 5 << 20}
    with running(**options, parameters={"ttlMonitorSleepSecs": 5}) as server, connected(server) as client:
        shown = client.admin.command("getCmdLineOpts")
        assert shown["argv"] == ["tailrace", "serve", "--port", "0"]
        assert shown["parsed"]["net"]["port"] == server.server.port
        assert shown["parsed"]["storage"] == {"dbPath": str(tmp_path)}
        assert shown["parsed"]["replication"] == {"replSet": "rs0", "oplogSizeMB": 5}
        assert shown["parsed"]["setParameter"] == {"ttlMonitorSleepSecs": "5"}


def test_the_log(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    assert own_client.admin.command({"getLog": "*"})["names"] == ["global", "startupWarnings"]
    log = own_client.admin.command({"getLog": "global"})
    assert log["totalLinesWritten"] == len(log["log"])
    first = json.loads(log["log"][0])
    assert first["msg"] == "Accepting connections"
    assert first["t"]["$date"].endswith("+00:00")
    assert own_client.admin.command({"getLog": "startupWarnings"})["log"] == []
    assert code_of(own_client, {"getLog": "nothing"}) == 96
    assert code_of(own_client, {"getLog": 1}) == 14
    assert own_client.admin.command({"logRotate": 1, "comment": "here"})["ok"] == 1.0
    assert own_server.messages()[-1] == "Log rotation requested"


def test_a_server_that_is_reachable_from_outside_logs_a_warning() -> None:
    with running(host="0.0.0.0") as server:
        server.restart()
        with connected(server) as client:
            (warning,) = client.admin.command({"getLog": "startupWarnings"})["log"]
    assert json.loads(warning)["msg"].startswith("Access control is not enabled")


def test_connection_status_and_address(server: RunningServer, client: MongoClient[Document]) -> None:
    assert client.admin.command("connectionStatus")["authInfo"]["authenticatedUsers"] == []
    with raw_client(server) as raw:
        host, port = raw.socket.getsockname()
        assert raw.call({"whatsmyuri": 1})["you"] == f"{host}:{port}"
    assert client.admin.command("logout")["ok"] == 1.0


def test_every_command_has_help(client: MongoClient[Document]) -> None:
    commands = client.admin.command("listCommands")["commands"]
    assert {"hello", "ping", "serverStatus", "replSetStepDown", "killOp"} <= commands.keys()
    assert list(commands) == sorted(commands)
    assert all(described["help"] for described in commands.values())
    assert commands["getLog"]["adminOnly"] is True
    assert commands["ping"]["apiVersions"] == ["1"]


# -- the set ---------------------------------------------------------------------------------------


def test_the_state_of_the_set(server: RunningServer, client: MongoClient[Document]) -> None:
    status = client.admin.command("replSetGetStatus")
    assert status["set"] == "rs0"
    assert status["myState"] == 1
    (member,) = status["members"]
    assert member["stateStr"] == "PRIMARY"
    assert member["name"] == server.server.address
    assert member["self"] is True
    assert status["optimes"]["lastCommittedOpTime"]["ts"] == status["operationTime"]


def test_the_configuration_of_the_set(server: RunningServer, client: MongoClient[Document]) -> None:
    config = client.admin.command("replSetGetConfig")["config"]
    assert config["_id"] == "rs0"
    assert [member["host"] for member in config["members"]] == [server.server.address]
    status = client.admin.command({"replSetGetConfig": 1, "commitmentStatus": True})
    assert status["commitmentStatus"] is True
    assert code_of(client, {"replSetInitiate": {}}) == 23


def test_the_set_has_the_name_it_was_given() -> None:
    with running(replica_set="books") as server, connected(server) as client:
        assert client.admin.command("hello")["setName"] == "books"
        assert server.uri.endswith("/?replicaSet=books")


def test_a_member_is_known_under_the_address_it_advertises() -> None:
    with running(advertise="db.example:1234") as server, raw_client(server) as raw:
        hello = raw.call({"hello": 1})
        assert hello["hosts"] == ["db.example:1234"]
        assert hello["me"] == hello["primary"] == "db.example:1234"
        assert server.uri == "mongodb://db.example:1234/?replicaSet=rs0"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("replSetGetStatus", 76),
        ("replSetGetConfig", 76),
        ("replSetStepDown", 76),
        ("replSetInitiate", 76),
        ({"appendOplogNote": 1, "data": {}}, 76),
        ("getDefaultRWConcern", 115),
    ],
)
def test_a_standalone_server_has_no_set(command: Any, code: int) -> None:
    with running(replica_set=None) as server, connected(server) as client:
        assert code_of(client, command) == code


def test_a_note_in_the_oplog(client: MongoClient[Document]) -> None:
    reply = client.admin.command({"appendOplogNote": 1, "data": {"note": "here"}})
    (entry,) = client["local"]["oplog.rs"].find({"ts": reply["operationTime"]})
    assert entry["op"] == "n"
    assert entry["ns"] == ""
    assert entry["o"] == {"note": "here"}
    assert entry["v"] == 2
    late = {"appendOplogNote": 1, "data": {}, "maxClusterTime": Timestamp(1, 1)}
    assert code_of(client, late) == 209
    soon = {**late, "maxClusterTime": Timestamp(entry["ts"].time + 100, 1)}
    assert client.admin.command(soon)["operationTime"] > entry["ts"]


# -- status ----------------------------------------------------------------------------------------


def test_server_status_has_the_fields_that_tools_read(client: MongoClient[Document]) -> None:
    status = client.admin.command("serverStatus")
    for section in (
        "asserts", "connections", "extra_info", "globalLock", "logicalSessionRecordCache", "mem", "metrics",
        "network", "opcounters", "repl", "storageEngine", "transactions",
    ):  # fmt: skip
        assert status[section], section
    assert status["storageEngine"]["name"] == "lmdb"
    assert status["repl"]["setName"] == "rs0"
    assert status["mem"]["resident"] > 0
    assert status["connections"]["current"] >= 1
    assert {"largeEventsSplit", "largeEventsFailed", "showExpandedEvents"} <= status["metrics"][
        "changeStreams"
    ].keys()


def test_sections_can_be_chosen(client: MongoClient[Document]) -> None:
    status = client.admin.command({"serverStatus": 1, "metrics": 0, "oplog": 1})
    assert "metrics" not in status
    assert status["oplog"]["earliestOptime"] <= status["oplog"]["latestOptime"]
    few = client.admin.command({"serverStatus": 1, "none": 1, "mem": 1})
    assert "mem" in few
    assert "network" not in few


def test_counters(own_client: MongoClient[Document]) -> None:
    own_client["shop"]["orders"].insert_many([{} for _ in range(7)])
    own_client["shop"]["orders"].update_one({}, {"$set": {"a": 1}})
    own_client["shop"]["orders"].delete_many({})
    list(own_client["shop"]["orders"].find())
    assert code_of(own_client, {"getLog": "nothing"}) == 96
    assert code_of(own_client, {"nothing": 1}) == 59
    status = own_client.admin.command("serverStatus")
    counted = status["opcounters"]
    assert (counted["insert"], counted["update"], counted["delete"], counted["query"]) == (7, 1, 1, 1)
    assert status["metrics"]["commands"]["getLog"] == {"failed": 1, "total": 1}
    assert status["metrics"]["commands"]["<UNKNOWN>"] == 1
    assert status["network"]["numRequests"] >= 6
    assert status["network"]["bytesIn"] > 0


# -- operations ------------------------------------------------------------------------------------


def waiting_operation(client: MongoClient[Document], comment: str) -> list[Document]:
    found: list[Document] = client.admin.command({"currentOp": 1, "command.comment": comment})["inprog"]
    return found


def test_an_operation_is_shown_and_killed(server: RunningServer, client: MongoClient[Document]) -> None:
    with raw_client(server) as raw:
        raw.send({"waitForFailPoint": "failCommand", "timesEntered": 1_000_000, "comment": "kill me"})
        wait_for(lambda: bool(waiting_operation(client, "kill me")))
        (shown,) = waiting_operation(client, "kill me")
        assert shown["op"] == "command"
        assert shown["ns"] == "admin.failCommand"
        assert shown["active"] is True
        assert shown["microsecs_running"] > 0
        assert shown["client"] == "{}:{}".format(*raw.socket.getsockname())
        killed = client.admin.command({"killOp": 1, "op": shown["opid"]})
        assert killed["info"] == "attempting to kill op"
        assert b"Interrupted" in raw.receive().document
        assert not waiting_operation(client, "kill me")
        assert raw.call({"ping": 1})["ok"] == 1.0


def test_only_the_beginning_of_a_long_command_is_shown(client: MongoClient[Document]) -> None:
    long: Document = {"currentOp": 1, "command.comment": "long", "comment": "long", "x": {"$ne": [7] * 1000}}

    def shown(**options: Any) -> Document:
        (operation,) = client.admin.command({**long, **options})["inprog"]
        found: Document = operation["command"]
        return found

    assert shown()["comment"] == "long"
    text = shown()["$truncated"]
    assert text.startswith('{ currentOp: 1, command.comment: "long", comment: "long", x: { $ne: [ 7, 7,')
    assert text.endswith("...")
    assert len(text) == 1000
    assert shown(**{"$truncateOps": False})["x"] == long["x"]
    stage = {"$currentOp": {"localOps": True}}
    match = {"$match": {"command.comment": "long", "x": {"$ne": [7] * 1000}}}
    (operation,) = client.admin.aggregate([stage, match], comment="long")
    assert operation["command"]["pipeline"] == [stage, match]
    stage["$currentOp"]["truncateOps"] = True
    (operation,) = client.admin.aggregate([stage, match], comment="long")
    assert list(operation["command"]) == ["$truncated", "comment"]


def test_a_command_that_kills_all_operations_may_kill_itself(server: RunningServer) -> None:
    with raw_client(server) as raw:
        for _ in range(3):
            (own,) = raw.call({"currentOp": 1, "client": "{}:{}".format(*raw.socket.getsockname())})["inprog"]
            for operation in range(own["opid"], own["opid"] + 3):
                assert raw.call({"killOp": 1, "op": operation})["ok"] == 1.0
        assert raw.call({"ping": 1})["ok"] == 1.0


def test_killing_an_operation_that_does_not_exist(client: MongoClient[Document]) -> None:
    assert client.admin.command({"killOp": 1, "op": Int64(2**30)})["ok"] == 1.0
    assert code_of(client, {"killOp": 1, "op": Int64(2**40)}) == 26823
    assert code_of(client, {"killOp": 1}) == 4


def test_idle_connections_are_shown_on_request(server: RunningServer, client: MongoClient[Document]) -> None:
    with raw_client(server) as raw:
        raw.call({"ping": 1})
        address = "{}:{}".format(*raw.socket.getsockname())
        assert not client.admin.command({"currentOp": 1, "client": address})["inprog"]
        (idle,) = client.admin.command({"currentOp": 1, "$all": True, "client": address})["inprog"]
        assert idle["active"] is False


def test_a_client_shows_its_application(server: RunningServer) -> None:
    with connected(server, appname="the shop") as client:
        shown = client.admin.command({"currentOp": 1, "appName": "the shop"})["inprog"]
        assert any(operation["command"].get("currentOp") for operation in shown)
        assert all(operation["clientMetadata"]["driver"]["name"].startswith("PyMongo") for operation in shown)


def test_shells_find_the_configuration_in_local(client: MongoClient[Document]) -> None:
    (stored,) = client["local"]["system.replset"].find()
    shown = client.admin.command("replSetGetConfig")["config"]
    assert {**stored, "term": shown["term"]} == shown
