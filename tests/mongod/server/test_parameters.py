"""Server parameters, cluster parameters, default concerns."""

from pathlib import Path
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.errors import CommandError
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tests.mongod.server.running import Document, RunningServer, connected, running


def code_of(client: MongoClient[Document], command: Document) -> int | None:
    with pytest.raises(OperationFailure) as failure:
        client.admin.command(command)
    return failure.value.code


def test_parameters_are_shown_and_changed(own_client: MongoClient[Document]) -> None:
    admin = own_client.admin
    assert admin.command({"getParameter": 1, "cursorTimeoutMillis": 1})["cursorTimeoutMillis"] == 600_000
    changed = admin.command({"setParameter": 1, "cursorTimeoutMillis": Int64(5), "writePeriodicNoops": False})
    assert changed["was"] == 600_000
    both = admin.command({"getParameter": 1, "cursorTimeoutMillis": 1, "writePeriodicNoops": 1})
    assert both["cursorTimeoutMillis"] == 5
    assert both["writePeriodicNoops"] is False


def test_an_api_version_can_be_required(own_client: MongoClient[Document]) -> None:
    own_client.admin.command({"setParameter": 1, "requireApiVersion": True})
    assert code_of(own_client, {"find": "c"}) == 498870
    assert code_of(own_client, {"ping": 1, "nothing": 1}) == 40415
    own_client.admin.command({"setParameter": 1, "requireApiVersion": False, "apiVersion": "1"})
    assert own_client.admin.command("ping")["ok"] == 1


def test_all_parameters(client: MongoClient[Document]) -> None:
    everything = client.admin.command({"getParameter": "*"})
    assert everything["featureCompatibilityVersion"] == {"version": "8.2"}
    assert everything["enableTestCommands"] is True
    details = client.admin.command({"getParameter": {"showDetails": True, "allParameters": True}})
    assert details["enableTestCommands"] == {
        "value": True,
        "settableAtRuntime": False,
        "settableAtStartup": True,
    }
    assert details.keys() == everything.keys()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"getParameter": 1, "nothing": 1}, None),
        ({"getParameter": 1}, None),
        ({"setParameter": 1}, None),
        ({"setParameter": 1, "nothing": 1}, None),
        ({"setParameter": 1, "enableTestCommands": False}, None),
        ({"setParameter": 1, "periodicNoopIntervalSecs": 0}, 2),
        ({"setParameter": 1, "cursorTimeoutMillis": "soon"}, 2),
        ({"setParameter": 1, "cursorTimeoutMillis": [1]}, 2),
        ({"setParameter": 1, "writePeriodicNoops": "perhaps"}, 2),
    ],
)
def test_wrong_parameters(client: MongoClient[Document], command: Document, code: int | None) -> None:
    assert code_of(client, command) == code


def test_nothing_is_set_if_something_is_wrong(client: MongoClient[Document]) -> None:
    before = client.admin.command({"getParameter": 1, "periodicNoopIntervalSecs": 1})
    assert code_of(client, {"setParameter": 1, "periodicNoopIntervalSecs": 7, "ttlMonitorSleepSecs": 0}) == 2
    after = client.admin.command({"getParameter": 1, "periodicNoopIntervalSecs": 1})
    assert after["periodicNoopIntervalSecs"] == before["periodicNoopIntervalSecs"]


def test_the_verbosity_of_the_log(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    admin = own_client.admin
    log = own_server.server.log
    assert not any('"s": "D' in line for line in log.newest())
    assert admin.command({"setParameter": 1, "logLevel": 1})["was"] == 0
    was = admin.command({"setParameter": 1, "logComponentVerbosity": {"verbosity": 0, "network": 2}})["was"]
    assert was["verbosity"] == 1
    assert was["network"]["asio"] == {"verbosity": -1}
    shown = admin.command({"getParameter": 1, "logLevel": 1, "logComponentVerbosity": 1})
    assert shown["logLevel"] == 0
    assert shown["logComponentVerbosity"]["network"]["verbosity"] == 2
    with connected(own_server) as other:
        other.admin.command("ping")
    assert any('"s": "D' in line for line in log.newest())
    assert code_of(own_client, {"setParameter": 1, "logComponentVerbosity": {"speed": 1}}) == 2


def test_the_number_of_inserts_in_one_entry(own_client: MongoClient[Document]) -> None:
    own_client.admin.command({"setParameter": 1, "internalInsertMaxBatchSize": 2})
    own_client.shop.c.insert_many([{"_id": number} for number in range(5)])
    entries = own_client.local["oplog.rs"].find({"$or": [{"o.applyOps": {"$exists": True}}, {"op": "i"}]})
    assert [len(entry["o"].get("applyOps", "1")) for entry in entries] == [2, 2, 1]


def test_feature_flags_are_documents(client: MongoClient[Document]) -> None:
    flag = "featureFlagEndOfTransactionChangeEvent"
    assert client.admin.command({"getParameter": 1, flag: 1})[flag] == {"value": False}


def test_parameters_at_the_start() -> None:
    with running(parameters={"ttlMonitorSleepSecs": "5", "ttlMonitorEnabled": "false"}) as server:
        assert server.server.first.parameters["ttlMonitorSleepSecs"] == 5
        assert server.server.first.parameters["ttlMonitorEnabled"] is False
    with pytest.raises(CommandError, match="no server parameter speed"):
        Server(ServerOptions(parameters={"speed": 1}))
    with pytest.raises(CommandError, match="ttlMonitorSleepSecs"):
        Server(ServerOptions(parameters={"ttlMonitorSleepSecs": "never"}))


# -- cluster parameters -------------------------------------------------------------------------------------


def expiry(seconds: Any) -> Document:
    return {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": seconds}}}


def test_the_default_keeps_images(client: MongoClient[Document]) -> None:
    (shown,) = client.admin.command({"getClusterParameter": "changeStreamOptions"})["clusterParameters"]
    assert shown == {
        "_id": "changeStreamOptions",
        "clusterParameterTime": Timestamp(0, 0),
        "preAndPostImages": {"expireAfterSeconds": "off"},
    }
    for wanted in ("*", ["changeStreamOptions"]):
        found = client.admin.command({"getClusterParameter": wanted})
        assert found["clusterParameters"] == [shown]


def test_a_cluster_parameter_is_kept_over_a_restart(tmp_path: Path) -> None:
    with running(data=tmp_path) as server, connected(server) as client:
        reply = client.admin.command({"setClusterParameter": expiry(100)})
        assert server.server.first.cluster_parameters.image_expiry_seconds == 100
        assert reply["ok"] == 1.0
    with running(data=tmp_path) as server, connected(server) as client:
        (shown,) = client.admin.command({"getClusterParameter": "*"})["clusterParameters"]
        assert shown["preAndPostImages"] == {"expireAfterSeconds": 100}
        assert shown["clusterParameterTime"] > Timestamp(0, 0)
        client.admin.command({"setClusterParameter": expiry("off")})
        assert server.server.first.cluster_parameters.image_expiry_seconds is None


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"setClusterParameter": expiry(0)}, 2),
        ({"setClusterParameter": expiry(-1)}, 2),
        ({"setClusterParameter": expiry("on")}, 2),
        ({"setClusterParameter": expiry(True)}, 2),
        ({"setClusterParameter": expiry(None)}, 2),
        ({"setClusterParameter": {"changeStreamOptions": {}}}, 2),
        ({"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {}}}}, 2),
        ({"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": 1}}}, 2),
        ({"setClusterParameter": {"changeStreamOptions": {"images": {}}}}, 2),
        ({"setClusterParameter": {"nothing": 1}}, 20),
        ({"setClusterParameter": {}}, 20),
        ({"setClusterParameter": 1}, 14),
        ({"getClusterParameter": "nothing"}, 4),
        ({"getClusterParameter": []}, 2),
        ({"getClusterParameter": 1}, 14),
    ],
)
def test_wrong_cluster_parameters(client: MongoClient[Document], command: Document, code: int) -> None:
    assert code_of(client, command) == code


def test_cluster_parameters_belong_to_admin(client: MongoClient[Document]) -> None:
    with pytest.raises(OperationFailure) as failure:
        client["shop"].command({"setClusterParameter": expiry(1)})
    assert failure.value.code == 13


# -- default concerns ---------------------------------------------------------------------------------------


def test_default_concerns(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    admin = own_client.admin
    shown = admin.command("getDefaultRWConcern")
    assert shown["defaultReadConcern"] == {"level": "local"}
    assert shown["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
    assert shown["defaultWriteConcernSource"] == "implicit"
    reply = admin.command(
        {
            "setDefaultRWConcern": 1,
            "defaultWriteConcern": {"w": 2},
            "defaultReadConcern": {"level": "majority"},
        }
    )
    assert reply["defaultWriteConcernSource"] == reply["defaultReadConcernSource"] == "global"
    note = admin.command({"appendOplogNote": 1, "data": {}})
    assert note["writeConcernError"]["code"] == 100


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 2),
        ({"defaultWriteConcern": {"w": 0}}, 2),
        ({"defaultWriteConcern": {"w": "x", "unknown": 1}}, 40415),
        ({"defaultReadConcern": {"level": "snapshot"}}, 2),
        ({"defaultReadConcern": {"level": "local", "afterClusterTime": Timestamp(1, 1)}}, 2),
    ],
)
def test_wrong_default_concerns(client: MongoClient[Document], fields: Document, code: int) -> None:
    assert code_of(client, {"setDefaultRWConcern": 1, **fields}) == code
