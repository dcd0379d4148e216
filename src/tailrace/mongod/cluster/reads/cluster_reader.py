"""Read one state of a whole cluster.

Queries on a router are the server's own, on this reader. A collection on one shard is read from that shard
directly. A sharded collection is the union of its shards, in the order of record keys or of an index. Shards
number their records independently, so its record keys and positions end in the number of the shard. Documents
on a shard that does not own them, because of a move, are skipped.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tailrace.mongod.cluster.reads.cluster_catalog import ClusterCatalog
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.reader import Block, Part, Reader, Record

OwnerCheck = Callable[[str, bytes], bool]
"""(shard, document): whether the shard owns the document"""

_SUFFIX: Final = 2
_BELOW: Final = b"\xff" * 16


class _Part(NamedTuple):
    number: int
    shard: str
    reader: Reader
    collection: Collection

    @property
    def suffix(self) -> bytes:
        return self.number.to_bytes(_SUFFIX, "big")


class ClusterReader(Reader):
    """One state of a cluster, with a reader for each shard."""

    def __init__(
        self,
        readers: Mapping[str, Reader],
        cluster: ClusterCatalog,
        numbers: Mapping[str, int],
        filters: Mapping[bytes, OwnerCheck],
        spread: frozenset[bytes],
    ) -> None:
        """``numbers`` identify the shards and never change.

        ``spread`` has the UUIDs of sharded collections. ``filters`` has an entry for each of those of which
        some shard may have documents that it does not own.
        """
        self._readers = readers
        self._cluster = cluster
        self._numbers = numbers
        self._filters = filters
        self._spread = spread
        self._parts: dict[bytes, list[_Part]] = {}

    @property
    def catalog(self) -> Catalog:
        return self._cluster.catalog

    def _parts_of(self, collection: Collection) -> list[_Part]:
        found = self._parts.get(collection.uuid)
        if found is None:
            found = self._parts[collection.uuid] = []
            for shard in self._cluster.places.get(collection.uuid, ()):
                reader = self._readers.get(shard)
                here = None if reader is None else reader.catalog.by_uuid(collection.uuid)
                if reader is not None and here is not None:
                    found.append(_Part(self._numbers[shard], shard, reader, here))
            found.sort()
        return found

    def parts(self, collection: Collection) -> Iterator[Part]:
        for part in self._parts_of(collection):
            yield Part(part.shard, part.reader, part.collection)

    def _only_part(self, collection: Collection) -> _Part | None:
        """The only part of an unsharded collection."""
        parts = self._parts_of(collection)
        return parts[0] if collection.uuid not in self._spread and len(parts) == 1 else None

    def _owns(self, part: _Part, document: bytes) -> bool:
        owns = self._filters.get(part.collection.uuid)
        return owns is None or owns(part.shard, document)

    # -- single records -----------------------------------------------------------------------------------

    def record(self, collection: Collection, key: bytes) -> bytes | None:
        only = self._only_part(collection)
        if only is not None:
            return only.reader.record(only.collection, key)
        for part in self._parts_of(collection):
            own = self._own_key(part, key)
            document = None if own is None else part.reader.record(part.collection, own)
            if document is not None and self._owns(part, document):
                return document
        return None

    @staticmethod
    def _own_key(part: _Part, key: bytes) -> bytes | None:
        """The record key on a shard; None if it belongs to another shard."""
        if part.collection.is_clustered:
            return key
        return key[:-_SUFFIX] if key.endswith(part.suffix) else None

    @staticmethod
    def _shown_key(part: _Part, key: bytes) -> bytes:
        return key if part.collection.is_clustered else key + part.suffix

    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        only = self._only_part(collection)
        if only is not None:
            return only.reader.record_key(only.collection, id_key)
        for part in self._parts_of(collection):
            key = part.reader.record_key(part.collection, id_key)
            document = None if key is None else part.reader.record(part.collection, key)
            if key is not None and document is not None and self._owns(part, document):
                return self._shown_key(part, key)
        return None

    # -- many records -------------------------------------------------------------------------------------

    def records(
        self, collection: Collection, after: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        only = self._only_part(collection)
        if only is not None:
            return only.reader.records(only.collection, after, reverse=reverse)
        parts = self._parts_of(collection)
        streams = [self._records_of(part, after, reverse=reverse) for part in parts]
        order = _first if collection.is_clustered else _place
        return heapq.merge(*streams, key=order, reverse=reverse)

    def _records_of(self, part: _Part, after: bytes | None, *, reverse: bool) -> Iterator[Record]:
        own = after
        if after is not None and not part.collection.is_clustered:
            own = _own_position(part, after, reverse=reverse)
        for key, document in part.reader.records(part.collection, own, reverse=reverse):
            shown = self._shown_key(part, key)
            if own is not after and _is_not_after(shown, after, reverse=reverse):
                continue
            if self._owns(part, document):
                yield shown, document

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        only = self._only_part(collection)
        if only is not None:
            return only.reader.block(only.collection, after, stop, count=count, size=size)
        return super().block(collection, after, stop, count=count, size=size)

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
        only = self._only_part(collection)
        if only is not None:
            own = only.collection.index(index.name)
            if own is None:
                return iter(())
            return only.reader.index_entries(only.collection, own, lower, upper, after=after, reverse=reverse)
        streams = [
            self._entries_of(part, index.name, lower, upper, after=after, reverse=reverse)
            for part in self._parts_of(collection)
        ]
        return heapq.merge(*streams, key=_place, reverse=reverse)

    def _entries_of(
        self, part: _Part, name: str, lower: bytes, upper: bytes, *, after: bytes | None, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        index = part.collection.index(name)
        if index is None:
            return
        place = None if after is None else _own_position(part, after, reverse=reverse)
        entries = part.reader.index_entries(
            part.collection, index, lower, upper, after=place, reverse=reverse
        )
        suffix = part.suffix
        for position, key in entries:
            shown = position + suffix
            if not _is_not_after(shown, after, reverse=reverse):
                yield shown, self._shown_key(part, key)

    def is_multikey(self, index: Index) -> bool:
        collection = self._cluster.indexed[index.ident]
        return any(self._is_multikey_in(part, index.name) for part in self._parts_of(collection))

    @staticmethod
    def _is_multikey_in(part: _Part, name: str) -> bool:
        index = part.collection.index(name)
        return index is not None and part.reader.is_multikey(index)

    def count(self, collection: Collection) -> tuple[int, int]:
        if collection.uuid in self._filters:
            sizes = [len(document) for _, document in self.records(collection)]
            return len(sizes), sum(sizes)
        counts = [part.reader.count(part.collection) for part in self._parts_of(collection)]
        return sum(number for number, _ in counts), sum(size for _, size in counts)


def _first(record: Record) -> bytes:
    return record[0]


def _place(found: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Sort key of record keys and positions: the shard's own one, then the number of the shard."""
    shown = found[0]
    return shown[:-_SUFFIX], shown[-_SUFFIX:]


def _is_not_after(shown: bytes, after: bytes | None, *, reverse: bool) -> bool:
    """Whether a position is not after another one."""
    if after is None:
        return False
    here, there = _place((shown, b"")), _place((after, b""))
    return here >= there if reverse else here <= there


def _own_position(part: _Part, after: bytes, *, reverse: bool) -> bytes:
    """Where a shard continues after a position of the whole: at it, if it is one of a shard that comes first.

    The result may be slightly too early; the caller compares with `after` again.
    """
    key, number = after[:-_SUFFIX], int.from_bytes(after[-_SUFFIX:], "big")
    if reverse:
        return key + b"\0" if part.number < number else key
    return key if part.number <= number else _just_below(key)


def _just_below(key: bytes) -> bytes:
    """A key that is less than another one with almost nothing in between."""
    if not key:
        return key
    last = key[-1]
    return key[:-1] if last == 0 else key[:-1] + bytes((last - 1,)) + _BELOW
