"""The error of a missing image."""

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, get_more, now, one, open_stream


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_missing_image_names_a_transaction_only_if_there_was_one(
    client: MongoClient[Document], database: Database[Document], in_transaction: bool
) -> None:
    database.c.insert_one({"_id": 1})
    change = {"$set": {"a": 1}}
    with database.c.watch(full_document_before_change="required") as stream:
        if in_transaction:
            with client.start_session() as session, session.start_transaction():
                database.c.update_one({"_id": 1}, change, session=session)
        else:
            # A retryable write has a number, but is not a transaction.
            database.c.update_one({"_id": 1}, change)
        with pytest.raises(OperationFailure) as caught:
            one(stream)
    assert caught.value.code == 47
    assert ("in transaction" in str(caught.value)) is in_transaction


def test_an_error_takes_the_events_of_its_batch_with_it(database: Database[Document]) -> None:
    began = now(database)
    database.c.insert_many([{"_id": 1}, {"_id": 2}])
    database.c.update_one({"_id": 1}, {"$set": {"a": 1}})
    spec = {"fullDocument": "required", "startAtOperationTime": began}
    with pytest.raises(OperationFailure) as caught:
        open_stream(database, "c", spec)
    assert caught.value.code == 47
    # A batch that ends before the error is delivered.
    cursor = open_stream(database, "c", spec, batch_size=2)
    assert [event["documentKey"]["_id"] for event in cursor["firstBatch"]] == [1, 2]
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor)
    assert caught.value.code == 47
    cursor = open_stream(database, "c", spec, batch_size=1)
    with pytest.raises(OperationFailure) as caught:
        get_more(database, cursor, batchSize=2)
    assert caught.value.code == 47
