"""Batches, waiting, positions and the end of a stream's cursor."""

import threading
import time
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import NotPrimaryError, OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, drain, get_more, now, open_stream
from tests.mongod.server.running import RunningServer, wait_for


def ids(batch: list[Document]) -> list[Any]:
    return [event["documentKey"]["_id"] for event in batch]


def test_the_first_batch_has_existing_events(database: Database[Document]) -> None:
    start = now(database)
    database.c.insert_many([{"_id": number} for number in range(150)])
    start = Timestamp(start.time, start.inc + 1)
    cursor = open_stream(database, "c", {"startAtOperationTime": start})
    assert ids(cursor["firstBatch"]) == list(range(101))
    more = get_more(database, cursor)
    assert ids(more["nextBatch"]) == list(range(101, 150))
    assert list(more) == ["nextBatch", "postBatchResumeToken", "id", "ns"]


def test_batch_sizes(database: Database[Document]) -> None:
    cursor = open_stream(database, "c", batch_size=0)
    database.c.insert_many([{"_id": number} for number in range(10)])
    assert cursor["firstBatch"] == []
    assert ids(get_more(database, cursor, batchSize=3)["nextBatch"]) == [0, 1, 2]
    assert ids(get_more(database, cursor, batchSize=1)["nextBatch"]) == [3]
    assert ids(get_more(database, cursor, batchSize=0)["nextBatch"]) == [4, 5, 6, 7, 8, 9]
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor, batchSize=-1)
    assert caught.value.code == 2


def test_replies_hold_at_most_16_megabytes(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    text = "x" * 6_000_000
    for number in range(4):
        database.c.insert_one({"_id": number, "text": text})
    batches: list[list[Any]] = []
    while sum(map(len, batches)) < 4:  # a stream that catches up may send less than would fit
        batches.append(ids(get_more(database, cursor)["nextBatch"]))
    assert [number for batch in batches for number in batch] == [0, 1, 2, 3]
    assert max(map(len, batches)) <= 2


def test_the_position_after_a_batch_is_its_last_event(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    more = get_more(database, cursor, batchSize=1)
    assert more["postBatchResumeToken"] == more["nextBatch"][-1]["_id"]


def test_the_position_advances_past_other_writes(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    before = cursor["postBatchResumeToken"]["_data"]
    database.other.insert_one({"_id": 1})
    after = get_more(database, cursor)["postBatchResumeToken"]["_data"]
    assert after > before
    assert get_more(database, cursor)["postBatchResumeToken"]["_data"] == after


def test_a_position_can_be_resumed_from(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    database.other.insert_one({"_id": 1})
    position = get_more(database, cursor)["postBatchResumeToken"]
    database.c.insert_one({"_id": 1})
    for option in ("resumeAfter", "startAfter"):
        resumed = open_stream(database, "c", {option: position})
        assert ids(resumed["firstBatch"]) == [1]


def test_a_start_in_the_future_waits_for_its_time(database: Database[Document]) -> None:
    later = Timestamp(now(database).time + 3600, 1)
    cursor = open_stream(database, "c", {"startAtOperationTime": later})
    database.c.insert_one({"_id": 1})
    more = get_more(database, cursor)
    assert more["nextBatch"] == []
    assert more["postBatchResumeToken"] == cursor["postBatchResumeToken"]


def test_get_more_waits_for_an_event(database: Database[Document], client: MongoClient[Document]) -> None:
    cursor = open_stream(database, "c")
    found: list[Document] = []
    waiting = threading.Thread(target=lambda: found.append(get_more(database, cursor, maxTimeMS=20_000)))
    # The driver's pool has only the session of the stream, which its getMore needs.
    with client.start_session() as other:
        client.admin.command("ping", session=other)
        waiting.start()
        wait_for(lambda: _waits(client, cursor["id"], other))
    database.c.insert_one({"_id": 1})
    waiting.join()
    assert ids(found[0]["nextBatch"]) == [1]


def _waits(client: MongoClient[Document], cursor_id: int, session: ClientSession | None = None) -> bool:
    """Whether a getMore on this cursor is running."""
    running = client.admin.command("currentOp", {"command.getMore": Int64(cursor_id)}, session=session)
    return bool(running["inprog"])


def test_an_empty_wait_ends_after_its_time(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    started = time.monotonic()
    assert get_more(database, cursor, maxTimeMS=50)["nextBatch"] == []
    assert time.monotonic() - started >= 0.05


def test_the_opening_never_waits(database: Database[Document]) -> None:
    assert open_stream(database, "c", maxTimeMS=1)["firstBatch"] == []


def test_invalidation_ends_the_cursor(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    cursor = open_stream(database, "c")
    database.c.drop()
    more = get_more(database, cursor)
    assert [event["operationType"] for event in more["nextBatch"]] == ["drop", "invalidate"]
    assert more["id"] == 0
    assert more["postBatchResumeToken"] == more["nextBatch"][-1]["_id"]
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 43


def test_an_invalidation_that_is_filtered_out_ends_the_cursor_too(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    cursor = open_stream(database, "c", {}, {"$match": {"operationType": "insert"}})
    database.c.drop()
    more = get_more(database, cursor)
    assert more["nextBatch"] == []
    assert more["id"] == 0
    resumed = open_stream(database, "c", {"startAfter": more["postBatchResumeToken"]})
    database.c.insert_one({"_id": 2})
    assert ids(drain(database, resumed)) == [2]


def test_resuming_after_an_invalidation_needs_start_after(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    cursor = open_stream(database, "c")
    database.c.drop()
    token = get_more(database, cursor)["nextBatch"][-1]["_id"]
    database.c.insert_one({"_id": 2})
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "c", {"resumeAfter": token})
    assert caught.value.code == 260
    assert ids(drain(database, open_stream(database, "c", {"startAfter": token}))) == [2]


def test_a_token_without_an_event_is_fatal(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    database.c.insert_one({"_id": 1})
    token = get_more(database, cursor)["nextBatch"][0]["_id"]
    database.c.insert_one({"_id": 2})
    spec = {"resumeAfter": token}
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "c", spec, {"$match": {"documentKey._id": 2}})
    assert caught.value.code == 280
    assert caught.value.has_error_label("NonResumableChangeStreamError")


def test_a_pipeline_that_changes_the_id_is_fatal(database: Database[Document]) -> None:
    cursor = open_stream(database, "c", {}, {"$project": {"_id": 0}})
    database.c.insert_one({"_id": 1})
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 280
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 43


def test_killed_cursors_do_not_exist(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    reply = database.command("killCursors", "c", cursors=[Int64(cursor["id"])])
    assert reply["cursorsKilled"] == [cursor["id"]]
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 43


def test_idle_cursors_are_reaped(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    cursor = own_client.shop.command(
        {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}, session=None
    )["cursor"]
    assert len(own_server.server.first.cursors) == 1
    own_server.call(own_server.server.advance_clock(40 * 60))
    with pytest.raises(OperationFailure) as caught:
        get_more(own_client.shop, cursor)
    assert caught.value.code == 43


def test_the_wrong_collection_is_refused(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    with pytest.raises(OperationFailure) as caught:
        database.command({"getMore": Int64(cursor["id"]), "collection": "other"})
    assert caught.value.code == 13


def test_a_lost_start_is_history_lost(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    cursor = open_stream(database, "c")
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    token = get_more(database, cursor)["nextBatch"][0]["_id"]
    database.c.insert_one({"_id": 3})
    own_server.truncate_oplog()
    for spec in ({"resumeAfter": token}, {"startAtOperationTime": Timestamp(1, 1)}):
        with pytest.raises(OperationFailure) as caught:
            open_stream(database, "c", spec)
        assert caught.value.code == 286
        assert caught.value.has_error_label("NonResumableChangeStreamError")
    opened = open_stream(database, "c", {"resumeAfter": token}, batch_size=0)
    with pytest.raises(OperationFailure) as caught:
        get_more(database, opened)
    assert caught.value.code == 286


def test_a_step_down_is_resumable(own_server: RunningServer, own_client: MongoClient[Document]) -> None:
    database = own_client.shop
    cursor = open_stream(database, "c")
    own_server.call(own_server.server.first.step_down(60))
    own_server.call(own_server.server.first.step_up())
    with pytest.raises(NotPrimaryError) as caught:
        get_more(database, cursor)
    details = caught.value.details
    assert isinstance(details, dict)
    assert details["code"] == 11602
    assert caught.value.has_error_label("ResumableChangeStreamError")


def test_the_session_of_a_cursor_is_checked_before_its_namespace(
    client: MongoClient[Document], database: Database[Document]
) -> None:
    with client.start_session() as session, client.start_session() as other:
        cursor = open_stream(database, "c", session=session)
        more = {"getMore": Int64(cursor["id"]), "collection": "other"}
        with pytest.raises(OperationFailure) as caught:
            database.command(more, session=other)
    assert caught.value.code == 50738
