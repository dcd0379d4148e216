"""The server as older releases, as a driver sees them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ConfigurationError, NotPrimaryError, OperationFailure

from tailrace.errors import UsageError
from tailrace.events.resume_token import ResumeToken
from tailrace.mongod.server.emulation.release import WIRE_VERSIONS, Release
from tailrace.testing.older_servers import older_servers_accepted
from tailrace.testing.replica_set import ReplicaSet

Document = dict[str, Any]
ITEMS = list(range(50))
"""long enough that the diff to a shorter array is smaller than the array"""
ALL = [f"{major}.{minor}" for major, minor in WIRE_VERSIONS]


@contextmanager
def presenting(version: str, **options: Any) -> Iterator["MongoClient[Document]"]:
    """A client of a server of that version; PyMongo is patched to accept it."""
    with older_servers_accepted(), ReplicaSet(server_version=version, **options) as replica_set:
        yield replica_set.client(retryReads=False, retryWrites=False)


def opening(client: "MongoClient[Document]", spec: Document, *stages: Document, **fields: Any) -> Document:
    """The first cursor of a change stream on one collection, without a driver's help."""
    pipeline = [{"$changeStream": spec}, *stages]
    return dict(client.shop.command("aggregate", "orders", pipeline=pipeline, cursor={}, **fields)["cursor"])


def refused(client: "MongoClient[Document]", spec: Document, *stages: Document, **fields: Any) -> int | None:
    """The code with which a change stream is refused; None if it is not."""
    try:
        opening(client, spec, *stages, **fields)
    except OperationFailure as failure:
        return failure.code
    return None


def changes(client: "MongoClient[Document]", **options: Any) -> list[Document]:
    """The events of an insert and of an update that shortens an array."""
    orders = client.shop.orders
    with orders.watch(**options) as stream:
        orders.insert_one({"_id": 1, "items": ITEMS})
        orders.update_one({"_id": 1}, [{"$set": {"items": ITEMS[:20]}}])
        return [next(stream), next(stream)]


def token_version(event: Document) -> int:
    return ResumeToken.parse(bson.encode(event["_id"])).version


# -- the handshake ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL)
def test_every_series_can_be_presented_written_to_and_watched(version: str) -> None:
    with presenting(version) as client:
        hello = client.admin.command("isMaster")
        information = client.server_info()
        with client.shop.orders.watch() as stream:
            client.shop.orders.insert_one({"_id": 1})
            event = next(stream)
            client.shop.orders.delete_one({"_id": 1})
            deleted = next(stream)
        with client.shop.orders.watch(resume_after=event["_id"]) as stream:
            assert next(stream) == deleted
    assert hello["maxWireVersion"] == Release.parse(version).wire_version
    assert information["version"] == f"{version}.0"
    assert information["versionArray"] == [*map(int, version.split(".")), 0, 0]


def test_without_a_version_it_is_the_current_one() -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        assert client.server_info()["version"] == "8.2.1"
        compatibility = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert compatibility["featureCompatibilityVersion"] == {"version": "8.2"}


def test_the_feature_compatibility_version_is_the_series() -> None:
    with presenting("5.0.14") as client:
        found = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert found["featureCompatibilityVersion"] == {"version": "5.0"}


@pytest.mark.parametrize("version", ["3.6", "4.1.3", "8.3", "9", "latest", "4.0.x", "4.0.1.2", ""])
def test_an_unknown_version_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(
        UsageError, match=r"is not a server version that can be presented; give one of 4\.0, "
    ):
        ReplicaSet(server_version=version).start()


def test_the_installed_driver_refuses_unsupported_releases() -> None:
    with ReplicaSet(server_version="4.2") as replica_set, pytest.raises(ConfigurationError, match="wire"):
        replica_set.client().admin.command("ping")


@pytest.mark.parametrize(
    ("version", "is_known"),
    [
        ("4.0.20", False),
        ("4.0.21", True),
        ("4.2.9", False),
        ("4.2.10", True),
        ("4.4.1", False),
        ("4.4.2", True),
    ],
)
def test_releases_with_hello(version: str, is_known: bool) -> None:
    with presenting(version) as client:
        handshake = client.admin.command("isMaster", helloOk=True)
        assert handshake["ismaster"] is True
        assert handshake.get("helloOk", False) is is_known
        if is_known:
            assert client.admin.command("hello")["isWritablePrimary"] is True
        else:
            with pytest.raises(OperationFailure) as failure:
                client.admin.command("hello")
            assert failure.value.code == 59


def test_streaming_hello_and_connection_ids() -> None:
    with presenting("4.0") as client:
        oldest = client.admin.command("isMaster")
    with presenting("4.2") as client:
        older = client.admin.command("isMaster")
    with presenting("4.4") as client:
        newer = client.admin.command("isMaster")
    assert "connectionId" not in oldest
    assert "connectionId" in older
    assert "topologyVersion" not in older
    assert "topologyVersion" in newer


@pytest.mark.parametrize("version", ["4.0.6", "4.2"])
def test_a_driver_without_streaming_hello_finds_the_next_primary(version: str) -> None:
    with older_servers_accepted(), ReplicaSet(server_version=version) as replica_set:
        orders = replica_set.client(heartbeatFrequencyMS=500).shop.orders
        orders.insert_one({"_id": 1})
        replica_set.step_down()
        with pytest.raises(NotPrimaryError):  # PyMongo decides by labels, and there are none
            orders.insert_one({"_id": 2})
        replica_set.step_up()
        orders.insert_one({"_id": 2})
        assert orders.count_documents({}) == 2


# -- what events look like ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "expected"), [("4.0.6", 0), ("4.0.7", 1), ("4.2", 1), ("6.0.19", 1), ("6.1", 2), ("7.0", 2)]
)
def test_tokens_have_the_version_of_the_release(version: str, expected: int) -> None:
    with presenting(version) as client:
        events = changes(client) if version >= "4.2" else []
        with client.shop.watch() as stream:
            client.shop.orders.insert_one({"_id": 2.5})
            client.shop.orders.drop()
            events += [next(stream), next(stream)]
        assert {token_version(event) for event in events} == {expected}
        with client.shop.watch(resume_after=events[-2]["_id"]) as stream:
            assert next(stream)["_id"] == events[-1]["_id"]


def test_a_token_of_a_later_release_is_refused() -> None:
    newer = ResumeToken.high_water_mark(1 << 32, 2)
    with presenting("6.0.8") as client:
        assert refused(client, {"resumeAfter": {"_data": newer.data}}) == 50795
    with presenting("6.0.9") as client:
        assert refused(client, {"resumeAfter": {"_data": newer.data}}) is None


def test_a_token_of_an_earlier_release_is_accepted(tmp_path: Any) -> None:
    with older_servers_accepted():
        with ReplicaSet(server_version="4.2", data=tmp_path) as replica_set:
            first, second = changes(replica_set.client())
        with (
            ReplicaSet(data=tmp_path) as replica_set,
            replica_set.client().shop.orders.watch(resume_after=first["_id"]) as stream,
        ):
            shown = next(stream)
    assert token_version(second) == 1
    assert token_version(shown) == 2
    assert shown["clusterTime"] == second["clusterTime"]


def test_the_position_is_returned_from_4_0_7_on() -> None:
    with presenting("4.0.6") as client:
        assert "postBatchResumeToken" not in opening(client, {})
        with client.shop.orders.watch() as stream:
            assert stream.resume_token is None
            assert stream.try_next() is None
            assert stream.resume_token is None
    with presenting("4.0.7") as client:
        assert "postBatchResumeToken" in opening(client, {})


def test_wall_time_is_shown_from_6_0_on() -> None:
    with presenting("5.3") as client:
        assert [event for event in changes(client) if "wallTime" in event] == []
        pipeline = [{"$match": {"wallTime": {"$exists": False}}}]
        with client.shop.orders.watch(pipeline) as stream:
            client.shop.orders.insert_one({})
            assert next(stream)["operationType"] == "insert"
    with presenting("6.0") as client:
        assert all("wallTime" in event for event in changes(client))


def test_invalidations_follow_the_release_too() -> None:
    with presenting("5.0") as client:
        client.shop.orders.insert_one({})
        with client.shop.orders.watch() as stream:
            client.shop.orders.drop()
            dropped, invalidated = next(stream), next(stream)
    assert (dropped["operationType"], invalidated["operationType"]) == ("drop", "invalidate")
    assert "wallTime" not in dropped
    assert "wallTime" not in invalidated


def test_array_truncation_is_a_replacement_before_5_0() -> None:
    with presenting("4.4") as client:
        replaced = changes(client)[1]
        client.shop.orders.update_one({"_id": 1}, {"$set": {"a": 1}})
        with client.shop.orders.watch(start_at_operation_time=replaced["clusterTime"]) as stream:
            next(stream)
            updated = next(stream)
    assert replaced["operationType"] == "replace"
    assert updated["updateDescription"] == {"updatedFields": {"a": 1}, "removedFields": []}
    with presenting("5.0") as client:
        truncated = changes(client)[1]
    assert truncated["updateDescription"] == {
        "updatedFields": {},
        "removedFields": [],
        "truncatedArrays": [{"field": "items", "newSize": 20}],
    }


def test_ambiguous_paths_are_explained_from_6_1_on() -> None:
    def description(client: "MongoClient[Document]") -> Document:
        orders = client.shop.orders
        orders.insert_one({"_id": 1, "a": {"1": 1}})
        with orders.watch(show_expanded_events=True) as stream:
            orders.update_one({"_id": 1}, {"$set": {"a.1": 2}})
            return dict(next(stream)["updateDescription"])

    with presenting("6.0") as client:
        assert "disambiguatedPaths" not in description(client)
    with presenting("6.1") as client:
        assert description(client)["disambiguatedPaths"] == {"a.1": ["a", "1"]}


def test_create_events_name_a_type_from_8_1_on() -> None:
    def created(client: "MongoClient[Document]") -> Document:
        with client.shop.watch(show_expanded_events=True) as stream:
            client.shop.create_collection("orders")
            return dict(next(stream))

    with presenting("8.0") as client:
        assert "nsType" not in created(client)
    with presenting("8.1") as client:
        assert created(client)["nsType"] == "collection"


@pytest.mark.parametrize(("version", "times"), [("7.3", 3), ("8.0", 1)])
def test_inserts_of_one_command_share_a_time_from_8_0_on(version: str, times: int) -> None:
    with presenting(version) as client, client.shop.orders.watch() as stream:
        client.shop.orders.insert_many([{"_id": number} for number in range(3)])
        events = [next(stream) for _ in range(3)]
    assert [event["documentKey"]["_id"] for event in events] == [0, 1, 2]
    assert len({event["clusterTime"] for event in events}) == times


# -- what is not known yet -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "before", "since"),
    [
        ("startAfter", {"_data": ResumeToken.high_water_mark(1 << 32, 1).data}, "4.0.28", "4.2"),
        ("fullDocumentBeforeChange", "whenAvailable", "5.3", "6.0"),
        ("showExpandedEvents", True, "5.3", "6.0"),
        ("showCommitTimestamp", True, "8.2.0", "8.2.1"),
        ("ignoreRemovedShards", True, "8.1", "8.2"),
    ],
)
def test_an_option_is_unknown_before_its_release(option: str, value: Any, before: str, since: str) -> None:
    with presenting(before) as client:
        assert refused(client, {option: value}) == 40415
    with presenting(since) as client:
        assert refused(client, {option: value}) is None


def test_images_are_available_from_6_0_on() -> None:
    with presenting("5.3") as client:
        assert refused(client, {"fullDocument": "whenAvailable"}) == 40575
        assert refused(client, {"fullDocument": "updateLookup"}) is None
        with pytest.raises(OperationFailure) as failure:
            client.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        assert failure.value.code == 40415
    with presenting("6.0") as client:
        client.shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        inserted, updated = changes(
            client, full_document="required", full_document_before_change="whenAvailable"
        )
    assert inserted["fullDocument"]["items"] == ITEMS
    assert updated["fullDocumentBeforeChange"]["items"] == ITEMS
    assert updated["fullDocument"]["items"] == ITEMS[:20]


@pytest.mark.parametrize(
    ("stage", "before", "since"),
    [
        ({"$set": {"seen": True}}, "4.0.28", "4.2"),
        ({"$unset": "ns"}, "4.0.28", "4.2"),
        ({"$replaceWith": "$$ROOT"}, "4.0.28", "4.2"),
        ({"$changeStreamSplitLargeEvent": {}}, "6.3", "7.0"),
        ({"$changeStreamSplitLargeEvent": {}}, "6.0.8", "6.0.9"),
    ],
)
def test_a_stage_is_unknown_before_its_release(stage: Document, before: str, since: str) -> None:
    with presenting(before) as client:
        assert refused(client, {}, stage) == 40324
    with presenting(since) as client:
        assert refused(client, {}, stage) is None


def test_fields_of_commands() -> None:
    with presenting("4.2") as client:
        assert refused(client, {}, comment="text") is None
        assert refused(client, {}, comment={"not": "text"}) == 14
        assert refused(client, {}, let={"a": 1}) == 9
        assert refused(client, {}, apiVersion="1") == 9
        cursor = opening(client, {})
        with pytest.raises(OperationFailure) as failure:
            client.shop.command("getMore", cursor["id"], collection="orders", comment="text")
        assert failure.value.code == 9
    with presenting("5.0") as client:
        assert refused(client, {}, comment={"not": "text"}, let={"a": 1}, apiVersion="1") is None


@pytest.mark.parametrize(("version", "code"), [("7.3", 51024), ("8.0", 2)])
def test_a_negative_batch_size_had_another_code(version: str, code: int) -> None:
    with presenting(version) as client:
        cursor = opening(client, {})
        for command in (
            {"aggregate": "orders", "pipeline": [{"$changeStream": {}}], "cursor": {"batchSize": -1}},
            {"getMore": cursor["id"], "collection": "orders", "batchSize": -1},
        ):
            with pytest.raises(OperationFailure) as failure:
                client.shop.command(command)
            assert failure.value.code == code


@pytest.mark.parametrize(
    ("command", "before", "since"),
    [
        ({"bulkWrite": 1, "ops": [], "nsInfo": []}, "7.3", "8.0"),
        ({"getClusterParameter": "changeStreamOptions"}, "5.3", "6.0"),
        ({"getDefaultRWConcern": 1}, "4.2", "4.4"),
    ],
)
def test_a_command_is_unknown_before_its_release(command: Document, before: str, since: str) -> None:
    def code(version: str) -> int | None:
        with presenting(version) as client:
            try:
                client.admin.command(command)
            except OperationFailure as failure:
                return failure.code
            return None

    assert code(before) == 59
    assert code(since) != 59


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "labels"), [("4.2", None), ("4.4", ["ResumableChangeStreamError"])])
@pytest.mark.parametrize("code", [6, 63])
def test_errors_are_labelled_from_4_4_on(version: str, labels: list[str] | None, code: int) -> None:
    with older_servers_accepted(), ReplicaSet(server_version=version) as replica_set:
        client = replica_set.client()
        cursor = opening(client, {})
        with (
            replica_set.fail_point("failGetMoreAfterCursorCheckout", {"times": 1}, {"errorCode": code}),
            pytest.raises(OperationFailure) as failure,
        ):
            client.shop.command("getMore", cursor["id"], collection="orders")
    assert failure.value.details is not None
    assert failure.value.code == code
    assert failure.value.details.get("errorLabels") == labels


def test_retryable_writes_are_labelled_from_4_4_on() -> None:
    for version, has_label in [("4.2", False), ("4.4", True), ("6.1", True)]:
        with older_servers_accepted(), ReplicaSet(server_version=version) as replica_set:
            client = replica_set.client(retryWrites=False)
            command = {"insert": "orders", "documents": [{}], "txnNumber": Int64(1)}
            with (
                replica_set.fail_point(data={"failCommands": ["insert"], "errorCode": 10107}),
                client.start_session() as session,
                pytest.raises(AutoReconnect) as failure,
            ):
                client.shop.command({**command, "lsid": session.session_id})
        details = failure.value.details
        assert isinstance(details, dict)
        assert ("RetryableWriteError" in details.get("errorLabels", ())) is has_label
        assert ("NoWritesPerformed" in details.get("errorLabels", ())) is (version == "6.1")
        assert ("topologyVersion" in details) is has_label


def test_a_removed_id_is_not_an_error_before_4_2() -> None:
    without_id = [{"$project": {"_id": 0}}]
    with presenting("4.0.28") as client:
        cursor = opening(client, {"startAtOperationTime": Timestamp(1, 1)}, *without_id)
        client.shop.orders.insert_one({"_id": 1})
        reply = client.shop.command("getMore", cursor["id"], collection="orders")
        (event,) = reply["cursor"]["nextBatch"]
    assert event["documentKey"] == {"_id": 1}
    assert "_id" not in event
    with presenting("4.2") as client:
        cursor = opening(client, {}, *without_id)
        client.shop.orders.insert_one({"_id": 1})
        with pytest.raises(OperationFailure) as failure:
            client.shop.command("getMore", cursor["id"], collection="orders")
    assert failure.value.code == 280


@pytest.mark.parametrize(("version", "code"), [("4.0.28", 40576), ("4.2", 286)])
def test_lost_history_had_another_code(version: str, code: int) -> None:
    with older_servers_accepted(), ReplicaSet(server_version=version) as replica_set:
        client = replica_set.client()
        client.shop.orders.insert_many([{}, {}])
        replica_set.truncate_oplog()
        assert refused(client, {"startAtOperationTime": Timestamp(1, 1)}) == code
