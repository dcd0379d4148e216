"""A server in front of a replica set serves its streams, waits while it is away, and refuses the rest."""

import json
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.errors import DuplicateKeyError, OperationFailure

from tailrace.error_codes import ErrorCode
from tailrace.errors import UsageError
from tailrace.mongod.front.commands import SERVED
from tailrace.mongod.server.commands import COMMANDS
from tailrace.sources.recorded.choice import open_deployment
from tailrace.sources.recorded.via import Via
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here
from tests.oracle.replay.real_streams import RealStreams
from tests.oracle.replay.stream_case import StreamCase
from tests.support.fronted import Fronted

Document = dict[str, Any]
SECONDS = 30
BOTH = pytest.mark.parametrize("via", list(Via), ids=lambda via: via.value)
"""The source is read from its oplog, and from its own change stream."""


@pytest.fixture(scope="module")
def source() -> Iterator[ReplicaSet]:
    with ReplicaSet(members=2, server_version="8.0.4", replica_set="orders") as found:
        yield found


@pytest.fixture(scope="module")
def front(source: ReplicaSet) -> Iterator[Fronted]:
    with Fronted(source.uri) as found:
        yield found


def note(client: "MongoClient[Document]") -> Timestamp:
    """The time of a new entry."""
    time: Timestamp = client.admin.command("appendOplogNote", data={"note": 1})["operationTime"]
    return time


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_status_and_token_ask_a_front(front: Fronted, source: ReplicaSet, here: Here) -> None:
    with MongoClient[Document](front.uri) as client, client.asked.watch() as stream:
        source.client().asked.orders.insert_one({"_id": 1})
        token = next(stream)["_id"]["_data"]
        outcome = here("status", front.uri)
        shown = dict(line.split(maxsplit=1) for line in outcome.lines if " " in line)
        explained = here("token", token, "--source", front.uri)
    assert (outcome.code, outcome.lines[-1]) == (0, "healthy"), outcome
    address = source.uri.removeprefix("mongodb://").partition("/")[0]
    assert shown["source"].startswith(f"{address}, MongoDB 8.0.4, read from its oplog through 20")
    assert shown["stream"].startswith("asked.*  client 127.0.0.1:")
    assert explained.code == 0
    rows = [line.split(maxsplit=1) for line in explained.lines]
    assert ["resumable", "yes, from the oplog"] in rows
    report = json.loads(here("status", front.uri, "--json").output)
    assert report["deployment"]["source"] == {
        "address": address,
        "version": "8.0.4",
        "via": "oplog",
        "away": False,
    }


# -- what it presents ---------------------------------------------------------------------------------------


def test_it_presents_the_release_and_the_set_of_the_source(front: Fronted) -> None:
    client = front.client()
    hello = client.admin.command("hello")
    assert client.server_info()["version"] == "8.0.4"
    assert (hello["setName"], hello["hosts"]) == ("orders", [hello["me"]])
    assert hello["isWritablePrimary"]
    shown = client.admin.command("serverStatus")["source"]
    assert (shown["version"], shown["featureCompatibilityVersion"], shown["away"]) == ("8.0.4", "8.0", False)


def test_an_upgrade_of_the_source_is_noticed(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    at: Any = {"data": tmp_path / "data", "port": port}
    with ExitStack() as stack:
        with ReplicaSet(server_version="7.0.5", **at) as old:
            front = stack.enter_context(Fronted(f"{old.uri}&heartbeatFrequencyMS=500"))
            client = front.client()
            stream = stack.enter_context(client.shop.orders.watch(full_document="updateLookup"))
            before = client.admin.command("hello")["maxWireVersion"]
        with ReplicaSet(server_version="8.0.4", **at) as new:
            wait_until(lambda: not client.admin.command("serverStatus")["source"]["away"])
            front.call(front.server.first.background.run_all())
            assert client.server_info()["version"] == "8.0.4"
            assert client.admin.command("hello")["maxWireVersion"] > before
            new.client().shop.orders.insert_one({"_id": 1})
            assert next(stream)["documentKey"] == {"_id": 1}


@pytest.mark.parametrize("name", sorted({command.name for command in COMMANDS.values()} - SERVED))
def test_other_commands_are_refused_with_the_address_of_the_source(
    source: ReplicaSet, front: Fronted, name: str
) -> None:
    with pytest.raises(OperationFailure) as failure:
        front.client().admin.command(name, "x")
    assert failure.value.code == ErrorCode.CommandNotSupported
    assert failure.value.details is not None
    assert failure.value.details["errmsg"] == (
        f"{name} is not served here: Tailrace serves the change streams of {','.join(source.members)}, and "
        "nothing else; connect to that address to run it"
    )


def test_other_pipelines_are_refused(front: Fronted) -> None:
    client = front.client()
    for command in (
        {"aggregate": "orders", "pipeline": [{"$match": {}}], "cursor": {}},
        {"explain": {"aggregate": "orders", "pipeline": [], "cursor": {}}},
        {"explain": {"find": "orders"}},
    ):
        with pytest.raises(OperationFailure) as failure:
            client.shop.command(command)
        assert failure.value.code == ErrorCode.CommandNotSupported
    with pytest.raises(OperationFailure):
        client.admin.aggregate([{"$currentOp": {}}, {"$out": "operations"}])


def test_its_own_collections_are_read_and_written(source: ReplicaSet, front: Fronted) -> None:
    client = front.client()
    own = client.tailrace.places
    own.insert_many([{"_id": number} for number in range(300)])
    assert own.update_one({"_id": 1}, {"$set": {"x": 1}}).modified_count == 1
    assert own.find_one_and_update({"_id": 1, "x": 1}, {"$set": {"x": 2}}) == {"_id": 1, "x": 1}
    with pytest.raises(DuplicateKeyError):
        own.insert_one({"_id": 1})
    assert len(own.find().to_list()) == own.count_documents({}) == 300  # in several batches
    assert own.delete_many({"_id": {"$lt": 100}}).deleted_count == 100
    with pytest.raises(OperationFailure, match="is not served here"):
        own.aggregate([{"$out": "copies"}])
    assert source.client().tailrace.list_collection_names() == []


def test_its_own_collections_need_rights(source: ReplicaSet) -> None:
    with Fronted(source.uri, auth=True, first_user=("admin", "a")) as front:
        admin = front.client(username="admin", password="a")
        for name, role in (("reader", "read"), ("worker", "readWrite")):
            admin.admin.command("createUser", name, pwd="b", roles=[{"role": role, "db": "tailrace"}])
        worker = front.client(username="worker", password="b").tailrace.groups
        worker.insert_one({"_id": "billing"})
        reader = front.client(username="reader", password="b").tailrace.groups
        assert reader.find_one() == {"_id": "billing"}
        with pytest.raises(OperationFailure) as failure:
            reader.insert_one({"_id": "audit"})
        assert failure.value.code == ErrorCode.Unauthorized
        with pytest.raises(OperationFailure, match="is not served here"):
            worker.database.client.shop.orders.insert_one({})


def test_open_streams_are_shown(front: Fronted) -> None:
    client = front.client()
    with client.shop.shown.watch():
        shown = list(client.admin.aggregate([{"$currentOp": {"idleCursors": True}}]))
    assert any(entry.get("ns") == "shop.shown" and "cursor" in entry for entry in shown)


def test_views_of_the_source_are_refused(source: ReplicaSet, front: Fronted) -> None:
    source.client().views.command("create", "seen", viewOn="orders", pipeline=[])
    with pytest.raises(OperationFailure) as failure:
        front.client().views.seen.watch()
    assert failure.value.code == ErrorCode.CommandNotSupportedOnView


# -- streams ------------------------------------------------------------------------------------------------


def test_a_stream_sees_what_is_written_after_it_was_opened_and_nothing_before(
    source: ReplicaSet, front: Fronted
) -> None:
    written, streamed = source.client().live.orders, front.client().live.orders
    for number in range(10):
        written.insert_one({"_id": f"before {number}"})
        with streamed.watch() as stream:
            written.insert_one({"_id": f"after {number}"})
            assert next(stream)["documentKey"] == {"_id": f"after {number}"}


def test_look_ups_are_asked_of_the_source(source: ReplicaSet, front: Fronted) -> None:
    database = source.client().images
    database.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    with front.client().images.orders.watch(
        full_document="updateLookup", full_document_before_change="required"
    ) as stream:
        database.orders.insert_one({"_id": 1, "a": 1})
        database.orders.update_one({"_id": 1}, {"$set": {"a": 2}})
        assert next(stream)["operationType"] == "insert"
        event = next(stream)
    assert event["fullDocumentBeforeChange"] == {"_id": 1, "a": 1}
    assert event["fullDocument"] == {"_id": 1, "a": 2}


def test_transactions_that_began_before_the_front_are_shown_whole(source: ReplicaSet) -> None:
    client = source.client()
    client.large.create_collection("orders")
    text = "x" * (6 << 20)
    with client.start_session() as session, session.start_transaction():
        for number in range(3):
            client.large.orders.insert_one({"_id": number, "text": text}, session=session)
    start = note(client)
    with client.large.watch(start_at_operation_time=Timestamp(1, 1), max_await_time_ms=1) as stream:
        token = next(event["_id"] for event in stream if event["ns"].get("coll") == "orders")
    with Fronted(source.uri) as late, late.client().large.watch(resume_after=token) as stream:
        assert [next(stream)["documentKey"]["_id"] for _ in range(2)] == [1, 2]
        client.large.orders.delete_one({"_id": 0})
        assert next(stream)["clusterTime"] > start


@BOTH
def test_streams_wait_while_the_source_elects_a_primary_or_restarts(source: ReplicaSet, via: Via) -> None:
    source.client().away.orders.drop()
    with (
        Fronted(source.uri, via=via) as front,
        front.client().away.orders.watch(full_document="updateLookup") as stream,
    ):
        for number, fault in enumerate((source.step_down, lambda: source.step_up(0), source.restart)):
            fault()
            wait_until(lambda: source.primary is not None)
            written = source.client().away.orders
            written.insert_one({"_id": number})
            written.update_one({"_id": number}, {"$set": {"a": 1}})
            assert [next(stream)["operationType"] for _ in range(2)] == ["insert", "update"]


# -- what the source has forgotten --------------------------------------------------------------------------


def changes(client: "MongoClient[Document]", start: Timestamp, end: Timestamp) -> list[bytes]:
    case = StreamCase("shop", None, {"showExpandedEvents": True, "startAtOperationTime": start})
    part = RealStreams(client, end).read(case)
    assert part.error is None, part.error
    return part.events


def write_orders(source: ReplicaSet) -> tuple[Timestamp, Timestamp]:
    client = source.client()
    start = note(client)
    for number in range(30):
        client.shop.orders.insert_one({"_id": number})
    client.shop.orders.update_many({}, {"$set": {"a": 1}})
    return start, note(client)


@BOTH
def test_a_history_answers_what_the_source_has_forgotten(tmp_path: Path, via: Via) -> None:
    with ReplicaSet() as source:
        start, end = write_orders(source)
        expected = changes(source.client(), start, end)
        assert len(expected) == 61
        with (
            open_deployment(source.uri, via) as read,
            Fronted(source.uri, via=via) as without,
            Fronted(source.uri, via=via, history=tmp_path / "history") as front,
        ):
            HistoryBuilder(read, tmp_path / "history").build()
            source.truncate_oplog()
            with pytest.raises(OperationFailure) as failure:
                without.client().shop.watch(start_at_operation_time=start)
            assert failure.value.code == ErrorCode.ChangeStreamHistoryLost
            history = front.server.history
            assert history is not None
            front.call(history.look())
            assert changes(front.client(), start, end) == expected
            with front.client().shop.watch(start_at_operation_time=start) as stream:
                for _ in expected[1:]:
                    next(stream)
                source.client().shop.orders.insert_one({"_id": "new"})
                assert next(stream)["documentKey"] == {"_id": "new"}


@BOTH
def test_a_stream_ends_when_the_source_has_removed_what_was_not_read(via: Via) -> None:
    with ReplicaSet() as source, Fronted(source.uri, via=via) as front:
        client = source.client()
        with front.client().shop.orders.watch() as stream:
            away = {
                "failCommands": ["aggregate", "find", "getMore"],
                "errorCode": 11601,
                "appName": "tailrace",
            }
            with source.fail_point(data=away):
                wait_until(lambda: any("away" in line["msg"] for line in front.log()))
                client.shop.orders.insert_one({"_id": 1})
                client.shop.orders.insert_one({"_id": 2})
                source.truncate_oplog()
            with pytest.raises(OperationFailure) as failure:
                next(stream)
            assert failure.value.code == ErrorCode.CappedPositionLost
        with front.client().shop.orders.watch() as stream:
            client.shop.orders.insert_one({"_id": 3})
            assert next(stream)["documentKey"] == {"_id": 3}


@BOTH
def test_a_source_that_was_restored_from_a_backup_ends_it(tmp_path: Path, via: Via) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    with ReplicaSet(data=data) as source:
        source.client().shop.orders.insert_one({"_id": 1})
        source.stop()
        shutil.copytree(data, copy)
        source.start()
        with Fronted(f"{source.uri}&heartbeatFrequencyMS=500", via=via) as front:
            with front.client() as client, client.shop.orders.watch() as stream:
                source.client().shop.orders.insert_one({"_id": 2})
                assert next(stream)["documentKey"] == {"_id": 2}
            source.stop()
            shutil.rmtree(data)
            shutil.copytree(copy, data)
            source.start()
            source.client().shop.orders.insert_one({"_id": 3})
            failure = front.wait_stopped()
    assert isinstance(failure, UsageError)
    assert "the deployment was restored from a backup" in str(failure)


# -- access -------------------------------------------------------------------------------------------------


def test_users_of_its_own_see_what_their_roles_allow(source: ReplicaSet) -> None:
    with Fronted(source.uri, auth=True, first_user=("admin", "a")) as front:
        front.client(username="admin", password="a").admin.command(
            "createUser", "reader", pwd="r", roles=[{"role": "read", "db": "shop"}]
        )
        assert "reader" not in str(source.client().admin.command("usersInfo", 1))
        client = front.client(username="reader", password="r")
        client.shop.orders.watch().close()
        for watched in (client.other.orders, client):
            with pytest.raises(OperationFailure) as failure:
                watched.watch()
            assert failure.value.code == ErrorCode.Unauthorized
        with pytest.raises(OperationFailure) as failure:
            front.client().shop.orders.watch()
        assert failure.value.code == ErrorCode.Unauthorized


# -- the command line ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [["--members", "3"], ["--shards", "2"], ["--standalone"]])
def test_options_that_the_source_decides_are_refused(here: Here, option: list[str]) -> None:
    outcome = here("serve", "--port", "0", "--source", "mongodb://nowhere", *option)
    assert outcome.code == 2
    assert f"{option[0]} is not for serve --source" in outcome.sentence


def test_a_way_to_read_needs_a_source(here: Here) -> None:
    outcome = here("serve", "--port", "0", "--via", "stream")
    assert outcome.code == 2
    assert "--via is for a --source" in outcome.sentence


def test_a_pipeline_needs_a_place_for_its_history(here: Here) -> None:
    outcome = here("serve", "--port", "0", "--source", "mongodb://nowhere", "--spark-master", "local[2]")
    assert outcome.code == 2
    assert "name its place with --history" in outcome.sentence


def test_a_source_that_does_not_answer(here: Here) -> None:
    uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50"
    outcome = here("serve", "--port", "0", "--source", uri)
    assert outcome.code == 2
    assert outcome.sentence.startswith("the source at 127.0.0.1:1 cannot be reached")
