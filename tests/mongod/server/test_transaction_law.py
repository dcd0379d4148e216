"""A law: applying the events of a stream gives the documents, with any concurrent transactions."""

import random
import threading
from typing import Any

import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.database import Database
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document
from tests.mongod.server.transacting import now
from tests.support.folding import Fold
from tests.support.history import identity

WORKERS = 4
ROUNDS = 12
EXPECTED = {24, 112, 251, 11000}
"""Conflicts, their consequences, and duplicate keys; no other errors are allowed"""


@pytest.mark.parametrize("seed", [1, 2])
def test_events_of_concurrent_transactions_replay(
    client: MongoClient[Document], database: Database[Document], seed: int
) -> None:
    for name in ("a", "b"):
        database[name].create_index("u", unique=True)
        database[name].create_index("tags")
    start = now(client)
    unexpected: list[BaseException] = []

    def work(number: int) -> None:
        try:
            Worker(client, database, random.Random(seed * 100 + number)).run()
        except BaseException as error:
            unexpected.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert unexpected == []
    raw: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
    raw_database: Any = client.get_database(database.name, codec_options=raw)
    fold = Fold({})
    stage = {"$changeStream": {"startAtOperationTime": start, "showRawUpdateDescription": True}}
    with raw_database.aggregate([stage]) as stream:
        while (event := stream.try_next()) is not None:
            fold.apply(event.raw)
    stored = {}
    for name in database.list_collection_names():
        content = {identity(document.raw): document.raw for document in raw_database[name].find()}
        if content:
            stored[f"{database.name}.{name}"] = content
        assert database.command("validate", name)["valid"] is True
    assert fold.content() == stored


class Worker:
    """A thread that writes at random, inside of transactions and outside."""

    def __init__(
        self, client: MongoClient[Document], database: Database[Document], rng: random.Random
    ) -> None:
        self._client = client
        self._database = database
        self._rng = rng

    def run(self) -> None:
        for _ in range(ROUNDS):
            try:
                if self._rng.random() < 0.3:
                    self._write(None)
                else:
                    self._transact()
            except OperationFailure as error:
                if error.code not in EXPECTED:
                    raise

    def _transact(self) -> None:
        with self._client.start_session() as session:
            session.start_transaction()
            for _ in range(self._rng.randrange(1, 6)):
                self._write(session)
            if self._rng.random() < 0.8:
                session.commit_transaction()

    def _write(self, session: ClientSession | None) -> None:
        rng = self._rng
        collection: Any = self._database[rng.choice("ab")]
        number, value = rng.randrange(20), rng.randrange(60)
        roll = rng.random()
        if roll < 0.35:
            collection.insert_one({"_id": number, "u": value, "tags": [value, number]}, session=session)
        elif roll < 0.55:
            collection.update_one({"_id": number}, {"$set": {"u": value}}, session=session)
        elif roll < 0.7:
            collection.update_many({"tags": {"$lt": 5}}, {"$push": {"tags": value}}, session=session)
        elif roll < 0.8:
            collection.delete_many({"u": {"$gt": 50}}, session=session)
        elif roll < 0.9:
            collection.find_one_and_delete({"_id": number}, session=session)
        else:
            self._database[f"made{rng.randrange(4)}"].insert_one({"u": value}, session=session)
