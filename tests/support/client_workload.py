"""Seeded random operations of clients, sent to a server through PyMongo.

`workload.py` writes oplogs; here a server does. The same seed sends the same operations as long as the server
returns the same replies. Operations that the server refuses are expected, and counted; an internal error is
raised.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from pymongo import DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import BulkWriteError, ClientBulkWriteException, OperationFailure

from tailrace.bson import documents as bsondocs
from tailrace.error_codes import ErrorCode
from tests.support.documents import DocumentMaker
from tests.support.history import Documents, identity
from tests.support.modifiers import ModifierMaker

Raw = RawBSONDocument
RAW_OPTIONS: Final = CodecOptions(
    document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_MS
)
"""Documents stay bytes; dates outside of Python's range can be decoded."""
COLLECTIONS: Final = ("orders", "stock", "users")
RENAMED: Final = ("archive", "old")
_ATTEMPTS: Final = 3
_WITH_CLIENT_BULK: Final = 25
"""The wire version of servers that know bulk writes over several collections."""
_NOT_A_REFUSAL: Final = frozenset({int(ErrorCode.InternalError), None})


class ClientWorkload:
    """Operations on two databases, whose names begin with a prefix."""

    def __init__(
        self, client: "MongoClient[Any]", seed: int, prefix: str, *, for_comparison: bool = False
    ) -> None:
        """With ``for_comparison`` the operations have the same effect on a replica set and a sharded cluster.

        They then create no unique indexes, of which a sharded collection allows few, and do not use the time.
        """
        self._rng = rng = random.Random(seed)
        self._unique_indexes = not for_comparison
        self._client = client
        self._documents = DocumentMaker(rng)
        self._modifiers = ModifierMaker(rng, self._documents, repeatable=for_comparison)
        self.databases = [f"{prefix}_a", f"{prefix}_b"]
        self.done: Counter[str] = Counter()
        """How often each kind of operation succeeded."""
        self.refused: Counter[int] = Counter()
        """How often the server refused an operation, by error code."""
        self._writes: list[tuple[int, Callable[[ClientSession | None], object]]] = [
            (24, self._insert), (8, self._insert_many), (24, self._update), (8, self._update_by_pipeline),
            (6, self._update_many), (8, self._replace), (5, self._upsert), (9, self._delete),
            (2, self._delete_many), (6, self._find_and_modify), (6, self._bulk),
        ]  # fmt: skip
        self._others: list[tuple[int, Callable[[], object]]] = [
            (14, self._transaction), (3, self._conflict), (3, self._bulk_of_client), (4, self._create),
            (3, self._drop), (3, self._rename), (1, self._drop_database), (4, self._create_index),
            (2, self._drop_index), (3, self._modify_collection), (2, self._view),
        ]  # fmt: skip

    def run(self, operations: int) -> None:
        """Run operations; some of them are several writes."""
        table: list[tuple[int, Callable[[], object]]] = [
            *((weight, lambda write=write: write(None)) for weight, write in self._writes),
            *self._others,
        ]
        names = [write.__name__ for _, write in self._writes] + [other.__name__ for _, other in self._others]
        weights = [weight for weight, _ in table]
        for number in self._rng.choices(range(len(table)), weights, k=operations):
            if self._attempt(table[number][1]):
                self.done[names[number].removeprefix("_")] += 1

    def content(self) -> Documents:
        """The present documents, as `find` returns them; empty collections are left out."""
        found: Documents = {}
        for name in self.databases:
            database = self._client[name]
            for collection in database.list_collection_names(filter={"type": "collection"}):
                cursor = database.get_collection(collection, RAW_OPTIONS).find()
                documents = {identity(document.raw): document.raw for document in cursor}
                if documents and not collection.startswith("system."):
                    found[f"{name}.{collection}"] = documents
        return found

    def _attempt(self, action: Callable[[], object]) -> bool:
        try:
            action()
        except OperationFailure as error:
            codes = _codes(error)
            if not codes or not _NOT_A_REFUSAL.isdisjoint(codes):
                raise
            self.refused.update(code for code in codes if code is not None)
            return False
        return True

    # -- collections and documents to use -------------------------------------------------------------

    def _database(self) -> "Database[Any]":
        return self._client[self._rng.choice(self.databases)]

    def _collection(self) -> "Collection[Raw]":
        return self._database().get_collection(self._rng.choice(COLLECTIONS), RAW_OPTIONS)

    def _existing(self, session: ClientSession | None) -> "tuple[Collection[Raw], dict[str, Any]] | None":
        """A random collection and one of its documents."""
        for _ in range(_ATTEMPTS):
            collection = self._collection()
            found = list(collection.find(session=session).sort("_id").limit(30))
            if found:
                return collection, bsondocs.decode(bytes(self._rng.choice(found).raw))
        return None

    def _new(self) -> Raw:
        return raw_document(self._documents.stored(self._documents.identifier()))

    # -- writes, inside or outside of a transaction ---------------------------------------------------

    def _insert(self, session: ClientSession | None) -> None:
        self._collection().insert_one(self._new(), session=session)

    def _insert_many(self, session: ClientSession | None) -> None:
        made = [self._new() for _ in range(self._rng.randrange(2, 6))]
        self._collection().insert_many(made, ordered=self._rng.random() < 0.5, session=session)

    def _update(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        if found is not None:
            collection, document = found
            update = raw_document(self._modifiers.make(document))
            collection.update_one(by_id(document), update, session=session)

    def _update_by_pipeline(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        if found is not None:
            collection, document = found
            stage = raw_document({"$replaceWith": {"$literal": self._documents.changed(document)}})
            collection.update_one(by_id(document), [stage], session=session)

    def _update_many(self, session: ClientSession | None) -> None:
        number = self._rng.randrange(4)
        update = self._rng.choice(
            ({"$inc": {"many": 1}}, {"$set": {"many": number}}, {"$unset": {"many": 1}})
        )
        self._collection().update_many({}, update, session=session)

    def _replace(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        if found is not None:
            collection, document = found
            collection.replace_one(
                by_id(document), raw_document(self._documents.stored(document["_id"])), session=session
            )

    def _upsert(self, session: ClientSession | None) -> None:
        wanted = {"_id": self._documents.identifier()}
        update = {self._rng.choice(("$set", "$setOnInsert")): {"upserted": self._documents.scalar()}}
        self._collection().update_one(by_id(wanted), raw_document(update), upsert=True, session=session)

    def _delete(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        if found is not None:
            collection, document = found
            collection.delete_one(by_id(document), session=session)

    def _delete_many(self, session: ClientSession | None) -> None:
        self._collection().delete_many({"many": {"$gte": self._rng.randrange(3)}}, session=session)

    def _find_and_modify(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        if found is None:
            return
        collection, document = found
        roll = self._rng.random()
        if roll < 0.4:
            update = raw_document(self._modifiers.make(document))
            collection.find_one_and_update(by_id(document), update, session=session)
        elif roll < 0.7:
            after = raw_document(self._documents.stored(document["_id"]))
            collection.find_one_and_replace(by_id(document), after, session=session)
        else:
            collection.find_one_and_delete(by_id(document), session=session)

    def _bulk(self, session: ClientSession | None) -> None:
        found = self._existing(session)
        writes: list[Any] = [InsertOne(self._new()), InsertOne(self._new())]
        collection = self._collection()
        if found is not None:
            collection, document = found
            key = by_id(document)
            writes += [
                UpdateOne(key, {"$set": {"bulk": self._rng.randrange(9)}}),
                ReplaceOne(key, raw_document(self._documents.stored(document["_id"]))),
                DeleteOne(key),
            ]
        self._rng.shuffle(writes)
        collection.bulk_write(writes, ordered=self._rng.random() < 0.5, session=session)

    def _bulk_of_client(self) -> None:
        writes: list[Any] = []
        for _ in range(self._rng.randrange(2, 5)):
            namespace = self._collection().full_name
            key = {"_id": self._rng.randrange(30)}
            writes.append(InsertOne(self._new(), namespace=namespace))
            writes.append(UpdateOne(key, {"$inc": {"bulk": 1}}, upsert=True, namespace=namespace))
        ordered = self._rng.random() < 0.5
        if self._client.admin.command("hello")["maxWireVersion"] >= _WITH_CLIENT_BULK:
            self._client.bulk_write(writes, ordered=ordered)

    # -- transactions -----------------------------------------------------------------------------------

    def _transaction(self) -> None:
        writes = [write for _, write in self._writes]
        weights = [weight for weight, _ in self._writes]
        with self._client.start_session() as session, session.start_transaction():
            for write in self._rng.choices(writes, weights, k=self._rng.randrange(1, 6)):
                write(session)
            if self._rng.random() < 0.2:
                session.abort_transaction()

    def _conflict(self) -> None:
        """Two transactions on one document: the second is refused."""
        found = self._existing(None)
        if found is None:
            return
        collection, document = found
        with (
            self._client.start_session() as first,
            self._client.start_session() as second,
            first.start_transaction(),
        ):
            collection.update_one(by_id(document), {"$set": {"by": 1}}, session=first)
            second.start_transaction()
            self._attempt(lambda: collection.update_one(by_id(document), {"$set": {"by": 2}}, session=second))

    # -- collections ------------------------------------------------------------------------------------

    def _create(self) -> None:
        options: Mapping[str, Any] = self._rng.choice(
            (
                {},
                {"changeStreamPreAndPostImages": {"enabled": True}},
                {"clusteredIndex": {"key": {"_id": 1}, "unique": True}},
                {"validator": {"never": {"$exists": False}}, "validationLevel": "moderate"},
            )
        )
        self._database().create_collection(self._rng.choice(COLLECTIONS), check_exists=False, **options)

    def _drop(self) -> None:
        self._collection().drop()

    def _rename(self) -> None:
        database = self._database()
        names = [self._rng.choice(COLLECTIONS), self._rng.choice(RENAMED)]
        self._rng.shuffle(names)
        database[names[0]].rename(names[1], dropTarget=self._rng.random() < 0.5)

    def _drop_database(self) -> None:
        self._client.drop_database(self._rng.choice(self.databases))

    def _create_index(self) -> None:
        name = self._rng.choice(("a", "b", "qty", "tags"))
        unique = self._rng.random() < 0.2
        self._collection().create_index(name, unique=unique and self._unique_indexes)

    def _drop_index(self) -> None:
        self._collection().drop_index(f"{self._rng.choice(('a', 'b', 'qty'))}_1")

    def _modify_collection(self) -> None:
        change = {"changeStreamPreAndPostImages": {"enabled": self._rng.random() < 0.5}}
        self._database().command({"collMod": self._rng.choice(COLLECTIONS), **change})

    def _view(self) -> None:
        database = self._database()
        if self._rng.random() < 0.5:
            database.drop_collection("seen")
        database.command({"create": "seen", "viewOn": self._rng.choice(COLLECTIONS), "pipeline": []})


def raw_document(document: Mapping[str, Any]) -> Raw:
    """A document that PyMongo sends unchanged: its own types cannot represent all of BSON."""
    return RawBSONDocument(bsondocs.encode(document), RAW_OPTIONS)


def by_id(document: Mapping[str, Any]) -> Raw:
    return raw_document({"_id": {"$eq": document["_id"]}})


def _codes(error: OperationFailure) -> list[int | None]:
    """Every error code in a failure."""
    if isinstance(error, ClientBulkWriteException):
        return [failure["code"] for failure in error.details["writeErrors"]]
    if isinstance(error, BulkWriteError):
        return [failure["code"] for failure in error.details["writeErrors"]]
    return [error.code]
