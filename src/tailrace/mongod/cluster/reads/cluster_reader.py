"""Reading a whole cluster: the states of all shards as one.

Queries on a router are the server's own, over this reader. A collection on one shard is read there as it is.
One that is spread over shards is the union of them, in the order of record keys or of an index; a record key
or position then ends in the number of its shard, because shards number their records independently. A
document on a shard that does not own its key (it is being moved, or was) is passed over.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from tailrace.mongod.cluster.reads.cluster_catalog import ClusterCatalog
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.reader import Block, Part, Reader, Record

OwnerCheck = Callable[[str, bytes], bool]
"""(shard, document): whether the document belongs to that shard"""

_SUFFIX: Final = 2
_BELOW: Final = b"\xff" * 16


class _Part(NamedTuple):
    """One shard's part of a collection."""

    number: int
    shard: str
    reader: Reader
    collection: Collection

    @property
    def suffix(self) -> bytes:
        return self.number.to_bytes(_SUFFIX, "big")


class ClusterReader(Reader):
    """One state of a cluster, read through a reader for each shard."""

    def __init__(
        self,
        readers: Mapping[str, Reader],
        cluster: ClusterCatalog,
        numbers: Mapping[str, int],
        filters: Mapping[bytes, OwnerCheck],
        spread: frozenset[bytes],
    ) -> None:
        """``numbers`` are the shards' for good; ``spread`` are the UUIDs of sharded collections.

        ``filters`` has those of them in which some shard may have documents that are not its own.
        """
        self._readers = readers
        self._cluster = cluster
        self._numbers = numbers
        self._filters = filters
        self._spread = spread
        self._parts: dict[bytes, list[_Part]] = {}

    @property
    def catalog(self) -> Catalog:
        """The collections of the cluster."""
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
        """See `Reader`."""
        for part in self._parts_of(collection):
            yield Part(part.shard, part.reader, part.collection)

    def _alone(self, collection: Collection) -> _Part | None:
        """The only part of a collection that is not sharded."""
        parts = self._parts_of(collection)
        return parts[0] if collection.uuid not in self._spread and len(parts) == 1 else None

    def _owns(self, part: _Part, document: bytes) -> bool:
        owns = self._filters.get(part.collection.uuid)
        return owns is None or owns(part.shard, document)

    # -- single records -----------------------------------------------------------------------------------

    def record(self, collection: Collection, key: bytes) -> bytes | None:
        """See `Reader`."""
        alone = self._alone(collection)
        if alone is not None:
            return alone.reader.record(alone.collection, key)
        for part in self._parts_of(collection):
            own = self._own_key(part, key)
            document = None if own is None else part.reader.record(part.collection, own)
            if document is not None and self._owns(part, document):
                return document
        return None

    @staticmethod
    def _own_key(part: _Part, key: bytes) -> bytes | None:
        """What a record key is on a shard; None if it is another shard's."""
        if part.collection.is_clustered:
            return key
        return key[:-_SUFFIX] if key.endswith(part.suffix) else None

    @staticmethod
    def _shown_key(part: _Part, key: bytes) -> bytes:
        return key if part.collection.is_clustered else key + part.suffix

    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        """See `Reader`."""
        alone = self._alone(collection)
        if alone is not None:
            return alone.reader.record_key(alone.collection, id_key)
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
        """See `Reader`."""
        alone = self._alone(collection)
        if alone is not None:
            return alone.reader.records(alone.collection, after, reverse=reverse)
        parts = self._parts_of(collection)
        streams = [self._records_of(part, after, reverse=reverse) for part in parts]
        order = _first if collection.is_clustered else _place
        return heapq.merge(*streams, key=order, reverse=reverse)

    def _records_of(self, part: _Part, after: bytes | None, *, reverse: bool) -> Iterator[Record]:
        own = after
        if after is not None and not part.collection.is_clustered:
            own = _own_place(part, after, reverse=reverse)
        for key, document in part.reader.records(part.collection, own, reverse=reverse):
            shown = self._shown_key(part, key)
            if own is not after and _is_passed(shown, after, reverse=reverse):
                continue
            if self._owns(part, document):
                yield shown, document

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        """See `Reader`."""
        alone = self._alone(collection)
        if alone is not None:
            return alone.reader.block(alone.collection, after, stop, count=count, size=size)
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
        """See `Reader`."""
        alone = self._alone(collection)
        if alone is not None:
            own = alone.collection.index(index.name)
            if own is None:
                return iter(())
            return alone.reader.index_entries(
                alone.collection, own, lower, upper, after=after, reverse=reverse
            )
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
        place = None if after is None else _own_place(part, after, reverse=reverse)
        entries = part.reader.index_entries(
            part.collection, index, lower, upper, after=place, reverse=reverse
        )
        suffix = part.suffix
        for position, key in entries:
            shown = position + suffix
            if not _is_passed(shown, after, reverse=reverse):
                yield shown, self._shown_key(part, key)

    def is_multikey(self, index: Index) -> bool:
        """See `Reader`."""
        collection = self._cluster.indexed[index.ident]
        return any(self._is_multikey_in(part, index.name) for part in self._parts_of(collection))

    @staticmethod
    def _is_multikey_in(part: _Part, name: str) -> bool:
        index = part.collection.index(name)
        return index is not None and part.reader.is_multikey(index)

    def count(self, collection: Collection) -> tuple[int, int]:
        """See `Reader`."""
        if collection.uuid in self._filters:
            sizes = [len(document) for _, document in self.records(collection)]
            return len(sizes), sum(sizes)
        counts = [part.reader.count(part.collection) for part in self._parts_of(collection)]
        return sum(number for number, _ in counts), sum(size for _, size in counts)


def _first(record: Record) -> bytes:
    return record[0]


def _place(found: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """What record keys and positions are ordered by: the shard's own, then the shard."""
    shown = found[0]
    return shown[:-_SUFFIX], shown[-_SUFFIX:]


def _is_passed(shown: bytes, after: bytes | None, *, reverse: bool) -> bool:
    """Whether a place is not behind another one."""
    if after is None:
        return False
    here, there = _place((shown, b"")), _place((after, b""))
    return here >= there if reverse else here <= there


def _own_place(part: _Part, after: bytes, *, reverse: bool) -> bytes:
    """Where a shard goes on behind a position of the whole: at it, if it is another shard's that comes first.

    What comes back may be a little before the right place; `after` itself decides then.
    """
    key, number = after[:-_SUFFIX], int.from_bytes(after[-_SUFFIX:], "big")
    if reverse:
        return key + b"\0" if part.number < number else key
    return key if part.number <= number else _just_below(key)


def _just_below(key: bytes) -> bytes:
    """Something less than a key with nothing, or next to nothing, in between."""
    if not key:
        return key
    last = key[-1]
    return key[:-1] if last == 0 else key[:-1] + bytes((last - 1,)) + _BELOW
