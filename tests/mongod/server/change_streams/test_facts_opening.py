"""Edge cases of opening a stream: almost valid specifications, and the oldest start."""

import pytest
from bson import Timestamp
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, open_stream


def test_a_stage_has_one_name(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as caught:
        database.command("aggregate", "c", pipeline=[{"$changeStream": {}, "$match": {}}], cursor={})
    assert caught.value.code == 40323


def test_a_stream_is_never_partial(database: Database[Document]) -> None:
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "c", allowPartialResults=True)
    assert caught.value.code == 72
    assert open_stream(database, "c", allowPartialResults=False)["id"]


def test_the_oldest_time_is_a_valid_start(database: Database[Document]) -> None:
    database.c.insert_one({"_id": 1})
    cursor = open_stream(database, "c", {"startAtOperationTime": Timestamp(0, 0)})
    assert [event["documentKey"] for event in cursor["firstBatch"]] == [{"_id": 1}]
