"""Read a state of the store.

Queries use a `Reader`: a snapshot, a write in progress, or a transaction with its own changes. Record keys
are opaque bytes that sort in natural order.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeAlias

from tailrace.events.pre_image_key import pre_image_key
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.tables import (
    COUNT,
    TIME,
    Tables,
    Transaction,
    after_prefix,
    lower_bound,
    pack_time,
    upper_bound,
)

TRUNCATED: Final = "truncatedThrough"
"""What the store calls the time of the newest entry that was removed"""

Record: TypeAlias = tuple[bytes, bytes]
"""(record key, document)"""


class Block(NamedTuple):
    """Consecutive documents of a collection."""

    documents: list[bytes]
    last: bytes | None
    """The record key of the last document; the next block comes after it."""
    is_last: bool
    """Whether no document follows."""


def multikey_mark(ident: int) -> str:
    """The name in the table `meta` that is set once a document has several keys in an index."""
    return f"multikey.{ident}"


class Part(NamedTuple):
    """The part of a collection on one shard."""

    shard: str | None
    """None where there are no shards"""
    reader: "Reader"
    collection: Collection


class Reader(ABC):
    """One state of catalog and documents."""

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """The collections as of this state."""

    def parts(self, collection: Collection) -> Iterable[Part]:
        """The collection on each shard, including documents that belong to another shard."""
        return (Part(None, self, collection),)

    @abstractmethod
    def record(self, collection: Collection, key: bytes) -> bytes | None:
        """The document at a record key."""

    @abstractmethod
    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        """The record key of the document with this `_id`; ``id_key`` comes from `id_keys.py`."""

    @abstractmethod
    def records(
        self, collection: Collection, after: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        """The records in natural or reverse order, starting strictly after ``after`` if it is given."""

    @abstractmethod
    def index_entries(
        self,
        collection: Collection,
        index: Index,
        lower: bytes,
        upper: bytes,
        *,
        after: bytes | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Positions in an index and the record keys they lead to, in the index's order.

        Bounds are KeyStrings without their end byte: all keys at or above ``lower`` that are below ``upper``
        or begin with it. Values too long for a key are cut, so some records outside the range may be returned
        as well. A position is the stored index key and valid in any later state: pass it as ``after`` to
        continue a scan.
        """

    def index_records(
        self, collection: Collection, index: Index, lower: bytes, upper: bytes, *, reverse: bool = False
    ) -> Iterator[Record]:
        """The records of the same range; a record with several keys is returned several times."""
        for _, key in self.index_entries(collection, index, lower, upper, reverse=reverse):
            document = self.record(collection, key)
            if document is not None:
                yield key, document

    @abstractmethod
    def is_multikey(self, index: Index) -> bool:
        """Whether some document may have several keys in the index."""

    @abstractmethod
    def count(self, collection: Collection) -> tuple[int, int]:
        """The number of records, and their size in bytes."""

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        """Documents in natural order, after ``after`` and up to the record key ``stop``.

        At most ``count`` documents and ``size`` bytes, but at least one if there is one. This is the fast
        path for readers that want whole documents.
        """
        found: list[bytes] = []
        last = after
        for key, document in self.records(collection, after):
            if stop is not None and key > stop:
                break
            size -= len(document)
            if len(found) == count or (found and size < 0):
                return Block(found, last, is_last=False)
            found.append(document)
            last = key
        return Block(found, last, is_last=True)

    def find_id(self, collection: Collection, id_key: bytes) -> Record | None:
        key = self.record_key(collection, id_key)
        if key is None:
            return None
        document = self.record(collection, key)
        return None if document is None else (key, document)


class TableReader(Reader):
    """Reads through one LMDB transaction."""

    def __init__(self, tables: Tables, transaction: Transaction) -> None:
        self._tables = tables
        self._transaction = transaction

    def record(self, collection: Collection, key: bytes) -> bytes | None:
        table = self._tables.by_name[collection.table]
        return self._transaction.get(collection.prefix + key, db=table)

    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        index = collection.id_index
        if index is not None:
            return self._transaction.get(index.prefix + id_key, db=self._tables.index)
        if collection.is_clustered and self.record(collection, id_key) is not None:
            return id_key
        return None

    def records(
        self, collection: Collection, after: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        prefix = collection.prefix
        size = len(prefix)
        table = self._tables.by_name[collection.table]
        with closing(self._transaction.cursor(db=table)) as cursor:
            if reverse:
                end = after_prefix(prefix) if after is None else prefix + after
                if not (cursor.prev() if end and cursor.set_range(end) else cursor.last()):
                    return
                for key, document in cursor.iterprev():
                    if not key.startswith(prefix):
                        return
                    yield key[size:], document
                return
            if not cursor.set_range(prefix if after is None else prefix + after + b"\0"):
                return
            for key, document in cursor:
                if not key.startswith(prefix):
                    return
                yield key[size:], document

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        prefix = collection.prefix
        found: list[bytes] = []
        with closing(self._transaction.cursor(db=self._tables.by_name[collection.table])) as cursor:
            if not cursor.set_range(prefix if after is None else prefix + after + b"\0"):
                return Block(found, after, is_last=True)
            # The key is checked once, at the end: checking each would take longer than reading.
            is_last = False
            left = size
            for document in islice(cursor.iternext(keys=False), count):
                left -= len(document)
                if left < 0 and found:
                    cursor.prev()
                    break
                found.append(document)
            else:
                if len(found) < count:
                    is_last = cursor.last()  # the table ended, which leaves the cursor without a position
            last = cursor.key()
        if last.startswith(prefix) and (stop is None or last[len(prefix) :] <= stop):
            return Block(found, last[len(prefix) :], is_last)
        return super().block(collection, after, stop, count=count, size=size)

    def index_entries(
        self,
        collection: Collection,  # noqa: ARG002 - the index's prefix is enough here
        index: Index,
        lower: bytes,
        upper: bytes,
        *,
        after: bytes | None = None,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes]]:
        prefix = index.prefix
        size = len(prefix)
        start = prefix + lower_bound(lower)
        end = after_prefix(prefix + upper_bound(upper))
        with closing(self._transaction.cursor(db=self._tables.index)) as cursor:
            if not reverse:
                if cursor.set_range(start if after is None else max(start, prefix + after + b"\0")):
                    for key, record_key in cursor:
                        if key >= end:
                            return
                        yield key[size:], record_key
                return
            bound = end if after is None else min(end, prefix + after)
            if cursor.prev() if cursor.set_range(bound) else cursor.last():
                for key, record_key in cursor.iterprev():
                    if key < start:
                        return
                    yield key[size:], record_key

    def record_key_at(
        self,
        collection: Collection,  # noqa: ARG002 - the index's prefix is enough here
        index: Index,
        index_key: bytes,
    ) -> bytes | None:
        """The record key that a unique index stores under a key."""
        return self._transaction.get(index.prefix + index_key, db=self._tables.index)

    def is_multikey(self, index: Index) -> bool:
        return self.meta(multikey_mark(index.ident)) is not None

    def count(self, collection: Collection) -> tuple[int, int]:
        return self.count_of(collection.ident)

    def count_of(self, ident: int) -> tuple[int, int]:
        """The stored counters of a collection: number of records, and their size in bytes."""
        found = self._transaction.get(ident.to_bytes(4, "big"), db=self._tables.counts)
        if found is None:
            return 0, 0
        number, size = COUNT.unpack(found)
        return number, size

    def entry(self, ts: int) -> bytes | None:
        """The oplog entry at exactly this cluster time."""
        return self._transaction.get(pack_time(ts), db=self._tables.oplog)

    def entries(self, after: int = 0, *, at_least: bool = False) -> Iterator[tuple[int, bytes]]:
        """The oplog's entries after a cluster time, or from it on with ``at_least``."""
        with closing(self._transaction.cursor(db=self._tables.oplog)) as cursor:
            if cursor.set_range(pack_time(after if at_least else after + 1)):
                for key, entry in cursor:
                    yield int.from_bytes(key, "big"), entry

    def oldest_entry(self) -> tuple[int, bytes] | None:
        """The oldest entry in the oplog."""
        return next(self.entries(), None)

    def newest_time(self) -> int:
        """The cluster time of the newest entry; 0 if there is none."""
        with closing(self._transaction.cursor(db=self._tables.oplog)) as cursor:
            return int.from_bytes(cursor.key(), "big") if cursor.last() else 0

    def truncated_through(self) -> int:
        """The cluster time of the newest entry that was removed; 0 if none was."""
        found = self.meta(TRUNCATED)
        return 0 if found is None else int(TIME.unpack(found)[0])

    def pre_image(self, uuid: bytes, ts: int, index: int) -> bytes | None:
        """The stored document `{_id, operationTime, preImage}` of one change."""
        return self._transaction.get(pre_image_key(uuid, ts, index), db=self._tables.preimages)

    def session_record(self, key: bytes) -> bytes | None:
        """The record of a session's writes; ``key`` comes from `sessions.session_key`."""
        return self._transaction.get(key, db=self._tables.sessions)

    def session_records(self, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The records of sessions whose keys are in a range, without its upper end."""
        with closing(self._transaction.cursor(db=self._tables.sessions)) as cursor:
            if cursor.set_range(lower):
                for key, record in cursor:
                    if key >= upper:
                        return
                    yield key, record

    def image_record(self, key: bytes) -> bytes | None:
        """The image of a session's last retryable findAndModify."""
        return self._transaction.get(key, db=self._tables.images)

    def prepared_records(self) -> Iterator[bytes]:
        """The records of the prepared transactions."""
        with closing(self._transaction.cursor(db=self._tables.prepared)) as cursor:
            if cursor.first():
                yield from cursor.iternext(keys=False)

    def meta(self, name: str) -> bytes | None:
        """A value from the table `meta`."""
        return self._transaction.get(name.encode(), db=self._tables.meta)


class State(Reader):
    """A committed state that does not change while it is open; close it soon, or the data file grows."""

    @abstractmethod
    def close(self) -> None:
        """Release the state."""

    @abstractmethod
    def newest_time(self) -> int:
        """The cluster time of the newest change in it; 0 if there is none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Snapshot(TableReader, State):
    """A committed state of one store."""

    def __init__(self, tables: Tables, transaction: Transaction, catalog: Catalog) -> None:
        super().__init__(tables, transaction)
        self._catalog = catalog

    @property
    def catalog(self) -> Catalog:
        """The collections as of this state."""
        return self._catalog

    def known(self, uuid: bytes) -> Collection | None:
        """A collection as it was when this state was opened."""
        return self._catalog.by_uuid(uuid)

    def close(self) -> None:
        self._transaction.abort()
