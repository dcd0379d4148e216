"""Streams and an oplog that was truncated."""

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, get_more, open_stream
from tests.mongod.server.running import RunningServer


def test_an_open_stream_whose_position_was_truncated_is_lost(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    database = own_client.shop
    cursor = open_stream(database, "c", batch_size=0)
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    database.c.insert_one({"_id": 3})
    own_server.truncate_oplog()
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 136
    assert "errorLabels" not in (caught.value.details or {})
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 43


def test_an_open_stream_that_has_read_the_truncated_entries_continues(
    own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    database = own_client.shop
    cursor = open_stream(database, "c")
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    assert len(get_more(database, cursor)["nextBatch"]) == 2
    database.c.insert_one({"_id": 3})
    own_server.truncate_oplog()
    assert [event["documentKey"]["_id"] for event in get_more(database, cursor)["nextBatch"]] == [3]
