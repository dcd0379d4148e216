"""The replica set for tests: start, stop, restart, and each fault."""

from pathlib import Path

import pytest
from bson import Timestamp
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError

from tailrace.errors import CommandError, UsageError
from tailrace.testing.replica_set import ReplicaSet


def test_data_ends_with_the_set() -> None:
    with ReplicaSet() as replica_set:
        folder = replica_set.options.data
        assert folder is not None
        assert folder.is_dir()
    assert not folder.exists()


def test_data_in_a_directory_stays(tmp_path: Path) -> None:
    for round_ in range(2):
        with ReplicaSet(data=tmp_path) as replica_set:
            things = replica_set.client().shop.things
            assert things.count_documents({}) == round_
            things.insert_one({})


def test_it_can_be_used_again_and_stopped_twice() -> None:
    replica_set = ReplicaSet()
    for _ in range(2):
        replica_set.start()
        assert replica_set.client().admin.command("ping")["ok"] == 1
        with pytest.raises(RuntimeError, match="running already"):
            replica_set.start()
        replica_set.stop()
        replica_set.stop()
    with pytest.raises(RuntimeError, match="not running"):
        _ = replica_set.uri
    with pytest.raises(RuntimeError, match="not running"):
        replica_set.advance_clock(1)


def test_a_set_that_cannot_start_leaves_nothing(tmp_path: Path) -> None:
    with ReplicaSet(data=tmp_path), pytest.raises(UsageError, match="used by another server"):
        ReplicaSet(data=tmp_path).start()
    with ReplicaSet(data=tmp_path) as replica_set:
        assert replica_set.client().admin.command("ping")["ok"] == 1


def test_a_restart_keeps_data_port_and_clients() -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        with client.shop.things.watch() as stream:
            client.shop.things.insert_one({"_id": 1})
            assert next(stream)["documentKey"] == {"_id": 1}
            before = replica_set.uri
            replica_set.restart()
            assert replica_set.uri == before
            client.shop.things.insert_one({"_id": 2})
            assert next(stream)["documentKey"] == {"_id": 2}
        assert [line["msg"] for line in replica_set.log()].count("Shut down") == 1


def test_the_oplog_as_drivers_read_it() -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        client.shop.things.insert_one({"_id": 1})
        assert replica_set.oplog() == list(client.local["oplog.rs"].find())
        assert replica_set.oplog()[-1]["ts"] == replica_set.cluster_time


def test_truncation_up_to_a_time() -> None:
    with ReplicaSet() as replica_set:
        things = replica_set.client().shop.things
        for number in range(5):
            things.insert_one({"_id": number})
        entries = replica_set.oplog()
        replica_set.truncate_oplog(entries[-2]["ts"])
        assert replica_set.oplog() == entries[-2:]
        replica_set.truncate_oplog()
        assert replica_set.oplog() == entries[-1:]
        with pytest.raises(OperationFailure) as failure:
            things.watch(start_at_operation_time=Timestamp(1, 1))
        assert failure.value.code == 286


def test_a_moved_clock_shows_in_the_next_write() -> None:
    with ReplicaSet() as replica_set:
        things = replica_set.client().shop.things
        things.insert_one({})
        before = replica_set.cluster_time
        replica_set.advance_clock(10_000)
        things.insert_one({})
        assert replica_set.cluster_time.time - before.time >= 10_000


def test_a_step_down_until_the_step_up() -> None:
    with ReplicaSet() as replica_set:
        things = replica_set.client(serverSelectionTimeoutMS=50, retryWrites=False).shop.things
        things.insert_one({})
        replica_set.step_down()
        with pytest.raises((AutoReconnect, ServerSelectionTimeoutError)):
            things.insert_one({})
        with pytest.raises(CommandError, match="not primary"):
            replica_set.step_down()
        replica_set.step_up()
        replica_set.client().shop.things.insert_one({})
        assert replica_set.oplog()[-1]["t"] == 2


def test_a_fail_point_ends_with_its_block() -> None:
    with ReplicaSet() as replica_set:
        database = replica_set.client().shop
        data = {"failCommands": ["insert"], "errorCode": 11000}
        with replica_set.fail_point("failCommand", {"times": 5}, data) as point:
            with pytest.raises(OperationFailure):
                database.command("insert", "things", documents=[{}])
            assert point.times_entered == 1
        assert database.command("insert", "things", documents=[{}])["n"] == 1
        with pytest.raises(CommandError, match="not found"), replica_set.fail_point("nothing"):
            pass
        with (
            pytest.raises(CommandError, match="must be"),
            replica_set.fail_point(data={"errorCode": "x"}),
        ):
            pass
