"""The error of a missing image."""

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.change_streams.stream_commands import Document, one


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
