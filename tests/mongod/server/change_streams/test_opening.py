"""Invalid streams, and the error code of each."""

from typing import Any

import pytest
from bson import Binary, Decimal128, Timestamp
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, drain, open_stream
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import RunningServer, connected, running

HIGH_WATER_MARK = "82" + "00000001" + "00000001" + "2B022C0100296E1404"
TOKEN = {"_data": HIGH_WATER_MARK}

FAULTS: list[tuple[int, Any, Document]] = [
    (40415, "c", {"$changeStream": {"noSuchOption": 1}}),
    (14, "c", {"$changeStream": {"showExpandedEvents": 1}}),
    (6188500, "c", {"$changeStream": Binary(b"\5\0\0\0\0")}),
    (2, "c", {"$changeStream": {"fullDocument": "sometimes"}}),
    (2, "c", {"$changeStream": {"fullDocumentBeforeChange": "always"}}),
    (6188500, "c", {"$changeStream": 1}),
    (72, "c", {"$changeStream": {"allChangesForCluster": True}}),
    (72, 1, {"$changeStream": {"allChangesForCluster": True}}),
    (73, "system.users", {"$changeStream": {}}),
    (12888201, "c", {"$changeStream": {"matchCollectionUUIDForUpdateLookup": True}}),
    (50865, "c", {"$changeStream": {"resumeAfter": TOKEN, "startAfter": TOKEN}}),
    (40674, "c", {"$changeStream": {"resumeAfter": TOKEN, "startAtOperationTime": Timestamp(1, 1)}}),
    (40647, "c", {"$changeStream": {"resumeAfter": {}}}),
    (9, "c", {"$changeStream": {"resumeAfter": {"_data": "zz"}}}),
    (9, 2, {"$changeStream": {}}),
    (73, "$cmd.aggregate", {"$changeStream": {}}),
]


@pytest.mark.parametrize(("code", "target", "stage"), FAULTS)
def test_a_faulty_stream_is_refused(
    database: Database[Document], code: int, target: Any, stage: Document
) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command("aggregate", target, pipeline=[stage], cursor={})
    assert caught.value.code == code


STAGE: Document = {"$changeStream": {}}
PIPELINES: list[tuple[int, list[Any]]] = [
    (40602, [{"$match": {}}, STAGE]),
    (40602, [STAGE, STAGE]),
    (40600, [{"$facet": {"a": [STAGE]}}]),
    (51047, [{"$lookup": {"from": "o", "as": "x", "let": {}, "pipeline": [STAGE]}}]),
    (31441, [{"$unionWith": {"coll": "o", "pipeline": [STAGE]}}]),
    (20, [STAGE, {"$group": {"_id": 1}}]),
    (20, [STAGE, {"$out": "o"}]),
    (7182800, [STAGE, {"$changeStreamSplitLargeEvent": {"a": 1}}]),
    (7182802, [STAGE, {"$changeStreamSplitLargeEvent": {}}, {"$match": {}}]),
    (20, [{"$changeStreamSplitLargeEvent": {}}]),
    (40324, [STAGE, {"$noSuchStage": {}}]),
    (40324, [STAGE, {"$group": {}}, {"$noSuchStage": {}}]),
    (14, [STAGE, 1]),
    (15959, [{"$match": 1}, STAGE]),
    (15959, [STAGE, {"$group": {"_id": 1}}, {"$match": 1}]),
    (73, [STAGE, {"$currentOp": {}}]),
    (5491300, [STAGE, {"$_internalChangeStreamTransform": {}}]),
    (7182899, [STAGE, {"$changeStreamSplitLargeEvent": 1}]),
]


@pytest.mark.parametrize(("code", "pipeline"), PIPELINES)
def test_a_faulty_pipeline_is_refused(database: Database[Document], code: int, pipeline: list[Any]) -> None:
    database.o.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as caught:
        database.command("aggregate", "c", pipeline=pipeline, cursor={})
    assert caught.value.code == code


@pytest.mark.parametrize(
    "stage",
    [
        {"$_internalInhibitOptimization": {}},
        {"$_internalShredDocuments": {}},
        {"$fill": {"output": {"filled": {"value": 1}}}},
    ],
)
def test_stages_that_a_server_allows_although_it_does_not_say_so(
    database: Database[Document], stage: Document
) -> None:
    cursor = open_stream(database, "c", {"fullDocument": None}, stage)
    database.c.insert_one({"_id": 1})
    (event,) = drain(database, cursor)
    assert event["documentKey"] == {"_id": 1}
    assert event.get("filled") == (1 if "$fill" in stage else None)


def test_decimal_one_is_a_database(database: Database[Document]) -> None:
    assert open_stream(database, Decimal128("1"))["ns"] == f"{database.name}.$cmd.aggregate"


@pytest.mark.parametrize("name", ["admin", "local", "config"])
def test_internal_databases_are_not_watched(client: MongoClient[Document], name: str) -> None:
    with pytest.raises(OperationFailure) as caught:
        open_stream(client[name])
    assert caught.value.code == 73


def test_config_is_watched_if_asked_for(client: MongoClient[Document]) -> None:
    assert open_stream(client.config, spec={"allowToRunOnConfigDB": True})["ns"] == "config.$cmd.aggregate"


OPTIONS: list[tuple[int, Document]] = [
    (72, {"readConcern": {"level": "local"}}),
    (72, {"readConcern": {"level": "snapshot"}}),
    (72, {"readConcern": {"level": "linearizable"}}),
    (4928900, {"collectionUUID": Binary(b"0123456789abcdef", 4)}),
    (40415, {"noSuchOption": 1}),
    (2, {"cursor": {"batchSize": -1}}),
]


@pytest.mark.parametrize(("code", "options"), OPTIONS)
def test_faulty_options_are_refused(database: Database[Document], code: int, options: Document) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command({"aggregate": "c", "pipeline": [STAGE], "cursor": {}, **options})
    assert caught.value.code == code


def test_the_cursor_option_is_required(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command("aggregate", "c", pipeline=[STAGE])
    assert caught.value.code == 9


def test_a_stream_reads_with_majority(database: Database[Document]) -> None:
    assert open_stream(database, "c", readConcern={"level": "majority"})["id"]


def test_a_stream_cannot_be_in_a_transaction(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(OperationFailure) as caught:
            database.command("aggregate", "c", pipeline=[STAGE], cursor={}, session=session)
        session.abort_transaction()
    assert caught.value.code == 263


def test_unstable_options_are_refused_in_strict_mode(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command(
            "aggregate",
            "c",
            pipeline=[{"$changeStream": {"showExpandedEvents": True}}],
            cursor={},
            apiVersion="1",
            apiStrict=True,
        )
    assert caught.value.code == 323


def test_views_and_time_series_are_not_watched(database: Database[Document]) -> None:
    database.create_collection("v", viewOn="c", pipeline=[])
    database.create_collection("ts", timeseries={"timeField": "t"})
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "v")
    assert caught.value.code == 166
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "ts")
    assert caught.value.code == 166


def test_a_view_cannot_be_a_stream(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.create_collection("v", viewOn="c", pipeline=[STAGE])
    assert caught.value.code == 167


def test_a_standalone_server_has_no_streams() -> None:
    with running(replica_set=None) as server, connected(server) as client:
        with pytest.raises(OperationFailure) as caught:
            open_stream(client.shop, "c")
        assert caught.value.code == 40573


def test_nothing_needs_to_exist(database: Database[Document]) -> None:
    cursor = open_stream(database, "nowhere")
    assert cursor["ns"] == f"{database.name}.nowhere"
    assert cursor["firstBatch"] == []
    assert cursor["id"]
    assert list(cursor) == ["firstBatch", "postBatchResumeToken", "id", "ns"]


def test_the_cluster_is_watched_from_admin(client: MongoClient[Document]) -> None:
    cursor = open_stream(client.admin, spec={"allChangesForCluster": True})
    assert cursor["ns"] == "admin.$cmd.aggregate"


def test_explain_names_the_stages(database: Database[Document]) -> None:
    reply = database.command(
        "aggregate", "c", pipeline=[STAGE, {"$match": {"operationType": "insert"}}], explain=True
    )
    names = [next(iter(stage)) for stage in reply["stages"]]
    assert names[0] == "$changeStream"
    assert "$match" in names
    assert "cursor" not in reply
    by_command = database.command(
        "explain", {"aggregate": "c", "pipeline": [STAGE], "cursor": {}}, verbosity="queryPlanner"
    )
    assert by_command["stages"][0]["$changeStream"]["stage"] == "$_internalChangeStreamOplogMatch"


@pytest.mark.parametrize("name", ["$db", "a$b"])
def test_a_database_with_a_dollar_sign_can_be_watched(own_server: RunningServer, name: str) -> None:
    with raw_client(own_server) as raw:
        stream = {"aggregate": 1, "pipeline": [STAGE], "cursor": {}, "$db": name}
        assert raw.call(stream)["cursor"]["ns"] == f"{name}.$cmd.aggregate"
        assert raw.call({"insert": "c", "documents": [{}], "$db": name})["code"] == 73
