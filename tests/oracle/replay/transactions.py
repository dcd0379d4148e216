"""Transactions of every shape on a real server: prepared, long, large, with commands in them."""

import random
from collections.abc import Callable, Sequence
from typing import Any

from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.write_concern import WriteConcern

from tests.support.client_workload import COLLECTIONS, RAW_OPTIONS, Raw, raw_document
from tests.support.documents import DocumentMaker

Operation = tuple[int, Callable[[], object]]


class RealTransactions:
    def __init__(
        self,
        client: "MongoClient[Any]",
        rng: random.Random,
        documents: DocumentMaker,
        databases: Sequence[str],
    ) -> None:
        self._client = client
        self._rng = rng
        self._documents = documents
        self._databases = databases

    def operations(self) -> list[Operation]:
        """Every shape with its weight."""
        return [
            (4, self._prepared),
            (4, self._long),
            (2, self._with_commands),
            (3, self._repeated_statements),
        ]

    def _collection(self) -> "Collection[Raw]":
        database = self._client[self._rng.choice(self._databases)]
        return database.get_collection(self._rng.choice(COLLECTIONS), RAW_OPTIONS)

    def _document(self) -> Raw:
        return raw_document(self._documents.stored(self._documents.identifier()))

    def _write(self, session: ClientSession) -> None:
        collection = self._collection()
        key = {"_id": self._rng.randrange(6)}
        change = {"$set": {"in": self._documents.value(1)}}
        roll = self._rng.random()
        if roll < 0.7:
            collection.update_one(key, raw_document(change), upsert=roll < 0.4, session=session)
        elif roll < 0.9:
            collection.delete_one(key, session=session)
        else:
            collection.replace_one(
                key, raw_document({"whole": self._documents.value()}), upsert=True, session=session
            )

    def _prepared(self) -> None:
        """As a shard does it: writes, prepareTransaction, other writes, then commit or abort."""
        rng, client = self._rng, self._client
        other = client[self._databases[0]].get_collection("between", write_concern=WriteConcern("majority"))
        with client.start_session() as session:
            session.start_transaction()
            for _ in range(rng.randrange(1, 9)):
                self._write(session)
            prepared = client.admin.command({"prepareTransaction": 1}, session=session)
            other.insert_one({"between": True})
            if rng.random() < 0.35:
                session.abort_transaction()
                return
            time = prepared["prepareTimestamp"]
            client.admin.command({"commitTransaction": 1, "commitTimestamp": time}, session=session)
            # The driver knows nothing of this commit: its own one repeats it, which has no effect.
            session.commit_transaction()

    def _long(self) -> None:
        """More operations than one entry has where the server limits them, on several collections."""
        with self._client.start_session() as session, session.start_transaction():
            for _ in range(self._rng.randrange(6, 16)):
                self._write(session)

    def _with_commands(self) -> None:
        """Collections and indexes that a transaction creates."""
        rng = self._rng
        database = self._client[rng.choice(self._databases)]
        name = rng.choice((*COLLECTIONS, "fresh"))
        with self._client.start_session() as session, session.start_transaction():
            database.create_collection(name, session=session, check_exists=False)
            if rng.random() < 0.5:
                database[name].create_index("a", session=session)
            database[name].insert_one({"_id": rng.randrange(9), "a": 1}, session=session)

    def _repeated_statements(self) -> None:
        """A retryable write whose reply is an error: the driver sends it again, which changes nothing."""
        collection = self._collection()
        error = {"code": 262, "errmsg": "made up", "errorLabels": ["RetryableWriteError"]}
        data = {"failCommands": ["update", "insert"], "writeConcernError": error}
        point = {"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": data}
        self._client.admin.command(point)
        try:
            if self._rng.random() < 0.5:
                collection.insert_many([self._document(), self._document()])
            else:
                collection.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
        finally:
            self._client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})

    def large(self, count: int, size: int) -> None:
        """One transaction that needs several entries by its size."""
        database = self._client[self._databases[0]]
        with self._client.start_session() as session, session.start_transaction():
            for number in range(count):
                database.large.insert_one({"_id": number, "text": "x" * size}, session=session)
