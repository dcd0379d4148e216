"""What streams of different releases show of the same oplog."""

from typing import Any

import pytest
from bson import Binary, Int64, Timestamp

from tailrace.bson.documents import encode
from tailrace.bson.values import Undefined
from tailrace.errors import UsageError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.resume_token import ResumeToken
from tailrace.events.stream_release import ROWS, StreamRelease
from tests.events.stages.streams import (
    UUID,
    at,
    code_of,
    command,
    entry,
    insert,
    open_engine,
    stream,
    types,
    update,
)

Document = dict[str, Any]
SPLIT: Document = {"$changeStreamSplitLargeEvent": {}}
SESSION = {"lsid": {"id": Binary(bytes(16), 4)}, "txnNumber": Int64(7)}
OLD = StreamRelease.parse("6.0.27")
NEW = StreamRelease.parse("8.2.1")


def retryable(increment: int, key: Any, **fields: Any) -> bytes:
    return entry(increment, "i", {"_id": key, **fields}, stmtId=0, **SESSION)


def keys(events: list[Document]) -> list[Any]:
    return [event["documentKey"]["_id"] for event in events]


def token_versions(events: list[Document]) -> set[int]:
    return {ResumeToken.parse(encode(event["_id"])).version for event in events}


def test_every_row_says_how_it_is_known() -> None:
    assert all(row.since and row.evidence for row in ROWS.values())


@pytest.mark.parametrize("version", ["", "6", "6.0.x", "3.6", "9.0", "4.1", "6.0.27.1"])
def test_a_version_that_cannot_be_imitated_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(UsageError, match="is not a server version whose change streams can be imitated"):
        StreamRelease.parse(version)


@pytest.mark.parametrize(
    ("reported", "imitated"),
    [("6.0.27", "6.0.27"), ("7.0.5-rc0", "7.0.5"), ("8.3.99", "8.3.99"), ("11.2.0", "8.3.99")],
)
def test_a_server_is_imitated_as_the_newest_release_that_is_known(reported: str, imitated: str) -> None:
    assert StreamRelease.of_server(reported).version == imitated


def test_a_server_before_4_0_is_not_imitated() -> None:
    with pytest.raises(UsageError, match="--server-version"):
        StreamRelease.of_server("3.6.23")


# -- which events there are ---------------------------------------------------------------------------------


def applied(increment: int, *inner: Document, **fields: Any) -> bytes:
    return command(increment, {"applyOps": list(inner), **fields}, ns="admin.$cmd", ui=None)


INNER: Document = {"op": "i", "ns": "shop.orders", "ui": UUID, "o": {"_id": 1}, "o2": {"_id": 1}}


def test_operations_of_a_users_apply_ops_are_hidden_before_6_1() -> None:
    entries = [applied(1, INNER, **{"$db": "admin"}), insert(2, 2)]
    assert keys(stream(entries, release=OLD)) == [2]
    assert keys(stream(entries, release=StreamRelease.parse("6.1"))) == [1, 2]


def test_a_hidden_apply_ops_cannot_make_a_stream_fail() -> None:
    entries = [applied(1, {"op": "n", "ns": "shop.orders", "o": {}}, **{"$db": "admin"}), insert(2, 2)]
    assert keys(stream(entries, release=OLD)) == [2]
    assert code_of(entries, release=NEW) == 5543809


def test_batches_of_the_server_are_shown_by_all_releases() -> None:
    assert keys(stream([applied(1, INNER)], release=OLD)) == [1]


def test_transactions_are_shown_by_all_releases() -> None:
    """The last entry of several has a field beside its operations, as a user's command has."""
    first = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
    o = {"applyOps": [INNER], "count": Int64(1)}
    entries = [command(1, o, ns="admin.$cmd", ui=None, **SESSION, **first)]
    assert keys(stream(entries, release=OLD)) == keys(stream(entries, release=NEW)) == [1]


def test_index_builds_are_shown_from_8_1_on() -> None:
    indexes = [{"v": 2, "key": {"a": 1}, "name": "a_1"}]
    entries = [
        command(1, {"startIndexBuild": "orders", "indexBuildUUID": UUID, "indexes": indexes}),
        command(2, {"abortIndexBuild": "orders", "indexBuildUUID": UUID, "indexes": indexes}),
    ]
    spec = {"showExpandedEvents": True, "showSystemEvents": True}
    assert types(stream(entries, spec, release=OLD)) == []
    newer = stream(entries, spec, release=StreamRelease.parse("8.1"))
    assert types(newer) == ["startIndexBuild", "abortIndexBuild"]


# -- fields -------------------------------------------------------------------------------------------------


def test_the_mark_of_migrations() -> None:
    entries = [entry(1, "i", {"_id": 1}, fromMigrate=True)]
    spec = {"showMigrationEvents": True}
    assert "fromMigrate" not in stream(entries, spec, release=OLD)[0]
    assert stream(entries, spec, release=NEW)[0]["fromMigrate"] is True


# -- tokens -------------------------------------------------------------------------------------------------


def test_streams_that_split_events_have_tokens_of_version_2() -> None:
    entries = [insert(1, 1), insert(2, 2)]
    assert token_versions(stream(entries, release=OLD)) == {1}
    assert token_versions(stream(entries, pipeline=[SPLIT], release=OLD)) == {2}
    assert code_of(entries, pipeline=[SPLIT], release=StreamRelease.parse("6.0.8")) == 40324


@pytest.mark.parametrize("pipeline", [[], [SPLIT]])
def test_a_stream_resumed_with_a_token_of_version_2_stays_with_it(pipeline: list[Document]) -> None:
    entries = [insert(1, 1), insert(2, 2)]
    first = stream(entries, pipeline=[SPLIT], release=OLD)[0]["_id"]
    mark = ResumeToken.high_water_mark(at(1), 2)
    for token in (first, {"_data": mark.data}):
        resumed = stream(entries, {"resumeAfter": token}, pipeline, release=OLD)
        assert token_versions(resumed) == {2}
    assert code_of(entries, {"resumeAfter": first}, release=StreamRelease.parse("6.0.8")) == 50795


def test_positions_have_the_version_of_the_stream() -> None:
    def position(spec: Document, *pipeline: Document) -> str:
        engine = open_engine(spec, pipeline, release=OLD)
        return ResumeToken.parse(engine.post_batch_resume_token).data

    time = to_timestamp(at(1))
    assert position({"startAtOperationTime": time}).endswith("2B0229296E04")
    assert position({"startAtOperationTime": time}, SPLIT).endswith("2B0429296E1404")
    newer = {"_data": ResumeToken.high_water_mark(at(1), 2).data}
    assert position({"resumeAfter": newer}).endswith("2B0429296E1404")
    older = {"_data": ResumeToken.high_water_mark(at(1), 1).data}
    assert position({"resumeAfter": older}, SPLIT).endswith("2B0429296E1404")


def test_the_uuid_of_a_looked_up_document_is_an_option_of_6_0_27() -> None:
    spec = {"fullDocument": "updateLookup", "matchCollectionUUIDForUpdateLookup": True}
    assert stream([], spec, release=OLD) == []
    assert code_of([], spec, release=StreamRelease.parse("6.0.26")) == 40415


# -- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        (None, True),
        ({"$in": [None, 1]}, True),
        ({"$lte": None}, True),
        ({"$ne": None}, False),
        ({"$not": {"$eq": None}}, False),
        ({"$elemMatch": {"$eq": None}}, False),
    ],
)
def test_null_finds_undefined_before_8_0(condition: Any, matches: bool) -> None:
    entries = [insert(1, 1, a=Undefined())]
    pipeline = [{"$match": {"fullDocument.a": condition}}]
    older, newer = (stream(entries, pipeline=pipeline, release=release) for release in (OLD, NEW))
    assert bool(older) is matches
    assert bool(newer) is (False if matches else "$elemMatch" not in condition)


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ({"txnNumber": {"$exists": False}}, False),
        ({"txnNumber": None}, False),
        ({"lsid": None}, False),
        ({"lsid.id": {"$exists": False}}, False),
        ({"txnNumber": {"$ne": 7}}, False),
        ({"txnNumber": {"$ne": 8}}, True),
        ({"txnNumber": {"$not": {"$gt": 3}}}, False),
        ({"txnNumber": {"$not": {"$gt": 9}}}, True),
        ({"$nor": [{"txnNumber": 7}]}, False),
        ({"$nor": [{"txnNumber": 8}]}, True),
        ({"$nor": [{"lsid": {"$exists": True}}, {"fullDocument.a": 5}]}, False),
        ({"$expr": {"$lte": ["$txnNumber", None]}}, False),
        ({"$expr": {"$not": [{"$gt": ["$txnNumber", 8]}]}}, True),
        ({"$expr": {"$eq": [{"$ifNull": ["$$ROOT.txnNumber", 0]}, 0]}}, False),
        ({"$expr": {"$eq": [{"$getField": "txnNumber"}, "$missing"]}}, True),
        ({"$or": [{"txnNumber": None}, {"operationType": "delete"}]}, False),
        ({"$or": [{"txnNumber": None}, {"operationType": "insert"}]}, True),
        ({"$or": [{"txnNumber": None}, {"fullDocument.a": 1}]}, True),
        ({"$or": [{"txnNumber": None}, {"fullDocument.a": 2}]}, False),
        ({"$or": [{"txnNumber": None}, {"unknown": 2}]}, True),
        ({"$and": [{"txnNumber": None}, {"unknown": None}]}, False),
    ],
)
def test_sessions_of_retryable_writes_are_matched_but_not_shown(condition: Document, shown: bool) -> None:
    for release in (OLD, NEW):
        events = stream([retryable(1, 1, a=1)], pipeline=[{"$match": condition}], release=release)
        assert len(events) == shown
        assert all("lsid" not in event and "txnNumber" not in event for event in events)
        moved = [{"$set": {"x": 1}}, {"$match": condition}]
        assert len(stream([retryable(1, 1, a=1)], pipeline=moved, release=release)) == shown
    kept = [{"$set": {"x": 1, "lsid": "$y", "txnNumber": "$y"}}, {"$match": condition}]
    assert len(stream([retryable(1, 1, a=1)], pipeline=kept)) == 1


def test_sessions_of_other_writes_are_not_matched() -> None:
    assert len(stream([insert(1, 1)], pipeline=[{"$match": {"txnNumber": None}}])) == 1
    before = StreamRelease.parse("5.0")
    assert len(stream([retryable(1, 1)], pipeline=[{"$match": {"txnNumber": None}}], release=before)) == 1


def test_binary_data_is_converted_from_8_0_on() -> None:
    entries = [insert(1, 1, data=b"abc")]
    spec = {"input": "$fullDocument.data", "to": "string", "onError": "bad"}
    pipeline = [{"$project": {"x": {"$convert": spec}}}]
    assert stream(entries, pipeline=pipeline, release=OLD)[0]["x"] == "bad"
    assert code_of(entries, pipeline=pipeline, release=NEW) == 4341115
    pipeline = [{"$project": {"x": {"$convert": {**spec, "format": "hex"}}}}]
    assert code_of(entries, pipeline=pipeline, release=OLD) == 9
    assert stream(entries, pipeline=pipeline, release=NEW)[0]["x"] == "616263"


def test_a_filter_sees_the_descriptions_that_raw_updates_replace() -> None:
    entries = [update(1, 1, {"u": {"a": 1}}), insert(2, 2)]
    spec = {"showRawUpdateDescription": True}
    pipeline = [{"$match": {"updateDescription": {"$exists": False}}}]
    assert types(stream(entries, spec, pipeline)) == ["insert"]
