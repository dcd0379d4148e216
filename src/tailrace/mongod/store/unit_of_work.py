"""The interface that write statements use: a job of the writer, or the open transaction of a session.

Both read like any state of the store and take the same changes. They differ in when others see them: the
changes of a job at its end, those of a transaction when it commits.
"""

import uuid as uuids
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from tailrace.events.entry_bytes import Operation, command
from tailrace.mongod.store.catalog import ID_INDEX_VERSION, Collection, Index, id_index_spec
from tailrace.mongod.store.catalog_rules import CatalogRules
from tailrace.mongod.store.clock import ClusterClock
from tailrace.mongod.store.reader import Reader


class UnitOfWork(Reader):
    """A state of the store that can be changed."""

    wall: int
    """Milliseconds since 1970 when the job began"""
    in_transaction: bool = False
    """Whether it belongs to a multi-document transaction"""

    @property
    @abstractmethod
    def clock(self) -> ClusterClock:
        """The source of cluster times."""

    @property
    @abstractmethod
    def rules(self) -> CatalogRules:
        """How the presented release changes the catalog."""

    @abstractmethod
    def insert(self, collection: Collection, document: bytes, *, stmt_id: int | None = None) -> bytes:
        """Store a document that has its `_id`; returns its record key."""

    @abstractmethod
    def update(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        after: bytes,
        o: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
    ) -> None:
        """Replace a record; ``o`` is what is logged: the whole new document, or `{$v: 2, diff}`."""

    @abstractmethod
    def delete(
        self,
        collection: Collection,
        key: bytes,
        before: bytes,
        *,
        stmt_id: int | None = None,
        retry_image: str | None = None,
        grouped: bool = False,
    ) -> None:
        """Remove a record."""

    def is_due(self) -> bool:
        """Whether a command that can go on in another job ends this one now; never in a transaction."""
        return False

    def end_group(self) -> None:
        """Start a new oplog entry for the next operation; a transaction is one entry in any case."""

    def create_collection(
        self,
        database: str,
        name: str,
        options: Mapping[str, Any] | None = None,
        *,
        uuid: bytes | None = None,
        logged: bool = True,
        id_version: int = ID_INDEX_VERSION,
        logs_id_index: bool = True,
    ) -> Collection:
        """Add a collection and log its creation; the caller has checked the name and the options."""
        options = dict(options or {})
        id_index = {**id_index_spec(options), "v": id_version}
        indexes = () if options.get("clusteredIndex") else (Index(self.new_ident(), id_index),)
        collection = Collection(
            database, name, uuid or uuids.uuid4().bytes, self.new_ident(), options, indexes
        )
        self.put_collection(collection)
        if logged and collection.is_logged:
            o: dict[str, Any] = {"create": name, **options}
            if indexes and logs_id_index and id_version == ID_INDEX_VERSION:
                o["idIndex"] = dict(indexes[0].spec)
            self.log(command(database, o, uuid=collection.uuid))
        return collection

    def add_index(
        self, collection: Collection, spec: Mapping[str, Any], logged: Mapping[str, Any] | None = None
    ) -> Collection:
        """Add an index to a collection without documents and log it; the caller has checked the spec.

        ``logged`` is what the oplog shows, if it is not the specification itself.
        """
        added = collection.with_changes(indexes=(*collection.indexes, Index(self.new_ident(), spec)))
        self.put_collection(added)
        if collection.is_logged:
            o = {"createIndexes": collection.name, **(spec if logged is None else logged)}
            self.log(command(collection.database, o, uuid=collection.uuid))
        return added

    @abstractmethod
    def new_ident(self) -> int:
        """A number for a new collection or index."""

    @abstractmethod
    def put_collection(self, collection: Collection) -> None:
        """Enter a new or changed collection into the catalog; nothing is logged."""

    @abstractmethod
    def log(self, operation: Operation) -> Any:
        """Log an operation that the other methods do not log themselves."""
