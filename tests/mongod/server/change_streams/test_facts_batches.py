"""The end of a batch: the position of the stream after it, and invalidations in it."""

from pymongo.database import Database

from tests.mongod.server.change_streams.stream_commands import Document, get_more, open_stream


def kinds(events: list[Document]) -> list[str]:
    return [event["operationType"] for event in events]


def test_after_a_full_batch_the_position_is_its_last_event(database: Database[Document]) -> None:
    cursor = open_stream(database, "c")
    database.c.insert_one({"_id": 1})
    database.other.insert_one({"_id": 1})
    full = get_more(database, cursor, batchSize=1)
    assert full["postBatchResumeToken"] == full["nextBatch"][0]["_id"]
    empty = get_more(database, cursor, batchSize=1)
    assert empty["postBatchResumeToken"]["_data"] > full["postBatchResumeToken"]["_data"]


def test_after_a_full_first_batch_the_position_is_its_last_event(database: Database[Document]) -> None:
    before = open_stream(database, "c", batch_size=0)["postBatchResumeToken"]
    database.c.insert_one({"_id": 1})
    database.other.insert_one({"_id": 1})
    cursor = open_stream(database, "c", {"resumeAfter": before}, batch_size=1)
    assert cursor["postBatchResumeToken"] == cursor["firstBatch"][0]["_id"]


def test_an_invalidation_in_a_full_batch_ends_the_cursor_with_the_next(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    cursor = open_stream(database, "c")
    database.c.drop()
    assert kinds(get_more(database, cursor, batchSize=1)["nextBatch"]) == ["drop"]
    full = get_more(database, cursor, batchSize=1)
    assert kinds(full["nextBatch"]) == ["invalidate"]
    assert full["id"] == cursor["id"]
    end = get_more(database, cursor, batchSize=1)
    assert end["nextBatch"] == []
    assert end["id"] == 0
    assert end["postBatchResumeToken"] == full["nextBatch"][0]["_id"]
