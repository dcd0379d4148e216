"""The simulated deployment: databases, collections, documents, sessions, and the journal of all changes.

Only the identifiers are random here; `tests.support.workload` and the modules that it uses decide what
happens. Transactions and index builds run concurrently with other operations, so a collection counts those
that need it unchanged (`pins`), and has the set of documents that they have locked.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bson import Binary

from tailrace.bson import raw as rawbson
from tailrace.events.entry_bytes import NULL_OPTIME, Operation, command
from tests.support.history import Change, History, PreImageKey
from tests.support.oplog_writer import OplogWriter, Session

INTERNAL_DATABASES: Final = frozenset({"admin", "config", "local"})
ID_INDEX: Final = {"v": 2, "key": {"_id": 1}, "name": "_id_"}


@dataclass(slots=True, eq=False)
class Collection:
    """A collection and its documents."""

    database: str
    name: str
    uuid: bytes
    shard_key: tuple[str, ...] = ()
    records_images: bool = False
    is_timeseries: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[bytes, bytes] = field(default_factory=dict)
    orphans: dict[bytes, bytes] = field(default_factory=dict)
    """Documents of another shard, copied here by chunk migration."""
    locked: set[bytes] = field(default_factory=set)
    """Documents that an open transaction has written."""
    pins: int = 0
    """Number of open operations that need the collection unchanged."""

    @property
    def namespace(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def is_system(self) -> bool:
        """Whether it is a system collection, or in an internal database."""
        return self.name.startswith("system.") or self.database in INTERNAL_DATABASES

    def document_key(self, raw: bytes) -> bytes:
        """Shard-key fields in the order of the key, then `_id`; missing fields are left out."""
        names = self.shard_key if "_id" in self.shard_key else (*self.shard_key, "_id")
        parts = []
        for name in names:
            found = _resolve(raw, name)
            if found is not None:
                parts.append(rawbson.element(found[0], name.encode(), found[1]))
        return rawbson.document(*parts)

    def is_taken(self, key: bytes) -> bool:
        """Whether an `_id` is in use, also by another shard's document or in an open transaction."""
        return key in self.documents or key in self.orphans or key in self.locked

    def free_keys(self) -> list[bytes]:
        """The documents that no open transaction has locked."""
        return [key for key in self.documents if key not in self.locked]


def _resolve(raw: bytes, path: str) -> tuple[int, bytes] | None:
    *parents, last = path.encode().split(b".")
    for parent in parents:
        inner = rawbson.subdocument(raw, parent)
        if inner is None:
            return None
        raw = inner
    return rawbson.field(raw, last)


@dataclass(slots=True)
class Statement:
    """One document write: the logged operation, and its effect on the collection."""

    collection: Collection
    operation: Operation
    key: bytes
    before: bytes | None
    after: bytes | None
    migrated: bool = False


class Deployment:
    """Collections by namespace, the oplog, and the journal."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.oplog = OplogWriter(rng)
        self.collections: dict[str, Collection] = {}
        self.reserved: set[str] = set()
        """Names of collections that an open transaction creates."""
        self.changes: list[Change] = []
        self.pre_images: dict[PreImageKey, bytes] = {}
        self.image_times: dict[int, int] = {}
        self._sessions: list[Session] = []

    # -- catalog ------------------------------------------------------------------------------------

    def user_collections(self, *, settled: bool = False) -> list[Collection]:
        """Ordinary collections; ``settled`` leaves out those that an open operation needs."""
        return [
            collection
            for collection in self.collections.values()
            if not (collection.is_system or collection.is_timeseries or (settled and collection.pins))
        ]

    def is_free(self, namespace: str) -> bool:
        """Whether a collection with this name could be created."""
        return namespace not in self.collections and namespace not in self.reserved

    def create(self, collection: Collection, *, from_migrate: bool | None = None) -> int:
        """Log the creation of a collection and add it."""
        timestamp = self.oplog.write(create_operation(collection, from_migrate=from_migrate))
        self.collections[collection.namespace] = collection
        return timestamp

    def remove(self, collection: Collection, timestamp: int) -> None:
        """Journal the end of a collection and all its documents."""
        del self.collections[collection.namespace]
        self._forget(collection, timestamp)

    def _forget(self, collection: Collection, timestamp: int) -> None:
        for key, raw, migrated in _contents(collection):
            self.changes.append(
                Change(timestamp, 0, collection.namespace, key, raw, None, migrated, is_write=False)
            )

    def move(self, collection: Collection, name: str, timestamp: int) -> None:
        """Journal that a collection was renamed within its database."""
        self.remove(collection, timestamp)
        collection.name = name
        self.collections[collection.namespace] = collection
        for key, raw, migrated in _contents(collection):
            self.changes.append(
                Change(timestamp, 0, collection.namespace, key, None, raw, migrated, is_write=False)
            )

    # -- documents ----------------------------------------------------------------------------------

    def apply(self, statement: Statement, timestamp: int, index: int = 0) -> None:
        """Apply a logged statement, and journal it as visible at ``timestamp``."""
        collection = statement.collection
        target = collection.orphans if statement.migrated else collection.documents
        if statement.after is None:
            target.pop(statement.key, None)
        else:
            target[statement.key] = statement.after
        change = Change(
            timestamp, index, collection.namespace, statement.key, statement.before, statement.after,
            statement.migrated, has_image=self._wants_image(statement),
        )  # fmt: skip
        self.changes.append(change)

    def record_image(self, statement: Statement, timestamp: int, index: int = 0) -> None:
        """Store the pre-image of a statement that is logged in the entry at ``timestamp``."""
        if self._wants_image(statement):
            assert statement.before is not None
            self.pre_images[statement.collection.uuid, timestamp, index] = statement.before
            self.image_times[timestamp] = self.oplog.wall

    @staticmethod
    def _wants_image(statement: Statement) -> bool:
        return statement.collection.records_images and statement.before is not None and not statement.migrated

    def write(self, statement: Statement, *, session: Session | None = None, statement_id: int = 0) -> None:
        """Log a statement as one entry; with a session, as a retryable write."""
        if session is None:
            timestamp = self.oplog.write(statement.operation)
        else:
            statement.operation.statement_ids = (statement_id,)
            timestamp = self.oplog.write(statement.operation, session=session, previous=session.last)
        self.record_image(statement, timestamp)
        self.apply(statement, timestamp)

    # -- sessions -----------------------------------------------------------------------------------

    def take_session(self) -> Session:
        """An unused session, with its next transaction number."""
        if self._sessions and self.rng.random() < 0.7:
            session = self._sessions.pop(self.rng.randrange(len(self._sessions)))
        else:
            session = Session(self.oplog.new_uuid(), self.rng.randbytes(32))
        session.transaction_number += 1
        session.last = NULL_OPTIME
        return session

    def give_back(self, session: Session) -> None:
        """Make a session available again."""
        self._sessions.append(session)

    def history(self, seed: int) -> History:
        return History(seed, self.oplog.entries, self.changes, self.pre_images, self.image_times)


def create_operation(collection: Collection, *, from_migrate: bool | None = None) -> Operation:
    """The `create` command of a collection; the options are already in catalog order."""
    o = {"create": collection.name, **collection.options}
    if "clusteredIndex" not in collection.options:
        o["idIndex"] = ID_INDEX
    return command(
        collection.database,
        o,
        uuid=collection.uuid,
        from_migrate=from_migrate,
        is_timeseries=collection.is_timeseries,
    )


def uuid_value(uuid: bytes) -> Binary:
    """A UUID as a value inside a command."""
    return Binary(uuid, 4)


def _contents(collection: Collection) -> Iterator[tuple[bytes, bytes, bool]]:
    for key, raw in collection.documents.items():
        yield key, raw, False
    for key, raw in collection.orphans.items():
        yield key, raw, True
