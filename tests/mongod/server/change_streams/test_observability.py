"""Counters, currentOp and log lines of change streams; work shared by streams."""

from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, drain, get_more, open_stream
from tests.mongod.server.running import RunningServer


def metrics(client: MongoClient[Document]) -> Document:
    found: Document = client.admin.command("serverStatus")["metrics"]["changeStreams"]
    return found


def test_counters(own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    database.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    assert metrics(own_client)["largeEventsSplit"] == 0
    open_stream(database, "c", {"showExpandedEvents": True})
    open_stream(database)
    cursor = open_stream(
        database, "c", {"fullDocumentBeforeChange": "required"}, {"$changeStreamSplitLargeEvent": {}}
    )
    database.c.insert_one({"_id": 1, "text": "x" * 9_000_000})
    database.c.replace_one({"_id": 1}, {"text": "y" * 9_000_000})
    for _ in range(3):
        cursor = get_more(database, cursor)
    found = metrics(own_client)
    assert found["largeEventsSplit"] == 1
    assert found["showExpandedEvents"] == 1


def test_log_lines(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    cursor = open_stream(database, "c", {"fullDocument": "updateLookup"}, comment="who")
    open_stream(database, "c", {"resumeAfter": cursor["postBatchResumeToken"]})
    bad = open_stream(database, "c", {}, {"$project": {"_id": 0}})
    database.c.insert_one({"_id": 1})
    with pytest.raises(OperationFailure):
        get_more(database, bad)
    database.command("killCursors", "c", cursors=[Int64(cursor["id"])])
    lines = [line for line in own_server.log() if line["msg"].startswith("Change stream")]
    assert [line["msg"] for line in lines] == [
        "Change stream opened",
        "Change stream resumed",
        "Change stream opened",
        "Change stream failed",
        "Change stream closed",
        "Change stream closed",
    ]
    assert lines[0]["attr"]["ns"] == "shop.c"
    assert lines[0]["attr"]["options"] == {"fullDocument": "updateLookup"}
    assert lines[0]["attr"]["comment"] == "who"
    assert lines[3]["attr"]["code"] == 280


def test_current_op_shows_idle_streams(own_client: MongoClient[Document]) -> None:
    cursor = open_stream(own_client.shop, "c", comment="mine")
    operations = own_client.admin.aggregate(
        [
            {"$currentOp": {"idleCursors": True}},
            {"$match": {"type": "idleCursor"}},
        ]
    )
    (found,) = [o for o in operations if o["cursor"]["cursorId"] == cursor["id"]]
    assert found["ns"] == "shop.c"
    assert found["cursor"]["originatingCommand"]["pipeline"] == [{"$changeStream": {}}]
    assert found["cursor"]["tailable"] is True
    assert found["cursor"]["awaitData"] is True


@pytest.mark.parametrize("tier", ["head"], indirect=True)
def test_streams_share_the_transformation(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    database = own_client.shop
    targets: list[Any] = ["c", "c", 1, 1]
    cursors = [open_stream(database, target) for target in targets]
    head = own_server.server.head
    before = head.transformed
    for number in range(20):
        database.c.insert_one({"_id": number})
    database.c.insert_many([{"_id": number} for number in range(20, 40)])
    batches = [drain(database, cursor) for cursor in cursors]
    assert [len(batch) for batch in batches] == [40, 40, 40, 40]
    # Twenty inserts, and one entry for the twenty inserted together; the stream of the database also read the
    # creation of the collection, which it does not show.
    assert head.transformed - before <= 22


@pytest.mark.parametrize("tier", ["head"], indirect=True)
def test_a_stream_is_not_woken_by_others(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    """A waiting getMore is not woken by events outside of its scope."""
    database = own_client.shop
    cursor = open_stream(database, "mine")
    before = own_server.server.head.transformed
    database.other.insert_one({"_id": 1})
    database.other.insert_many([{"_id": 2}, {"_id": 3}])
    more = get_more(database, cursor)
    assert more["nextBatch"] == []
    assert own_server.server.head.transformed == before
