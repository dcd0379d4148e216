"""Read a snapshot together with the changes that a transaction holds in memory."""

from collections.abc import Iterator

from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.reader import Block, Reader, Record
from tailrace.mongod.store.tables import after_prefix, lower_bound, upper_bound
from tailrace.mongod.store.transactions.overlay import Overlay


class OverlaidReader(Reader):
    """A snapshot with overlays on some of its collections, and new collections that are only overlays."""

    def __init__(self, snapshot: Reader) -> None:
        self._snapshot = snapshot
        self._catalog = snapshot.catalog
        self._overlays: dict[int, Overlay] = {}
        """By the idents of collections"""

    @property
    def catalog(self) -> Catalog:
        """The catalog of the snapshot with the collections created since."""
        return self._catalog

    def record(self, collection: Collection, key: bytes) -> bytes | None:
        overlay = self._overlays.get(collection.ident)
        if overlay is not None and key in overlay.records:
            return overlay.records.get(key)
        return self._snapshot.record(collection, key)

    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        overlay = self._overlays.get(collection.ident)
        if overlay is None:
            return self._snapshot.record_key(collection, id_key)
        index = collection.id_index
        if index is None:
            return id_key if self.record(collection, id_key) is not None else None
        own = overlay.record_key(index, id_key)
        if own is not None:
            return own
        key = self._snapshot.record_key(collection, id_key)
        return None if key is None or key in overlay.records else key

    def records(
        self, collection: Collection, after: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        base = self._snapshot.records(collection, after, reverse=reverse)
        overlay = self._overlays.get(collection.ident)
        return base if overlay is None else overlay.merged_records(base, after, reverse=reverse)

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        if collection.ident in self._overlays:
            return super().block(collection, after, stop, count=count, size=size)
        return self._snapshot.block(collection, after, stop, count=count, size=size)

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
        base = self._snapshot.index_entries(collection, index, lower, upper, after=after, reverse=reverse)
        overlay = self._overlays.get(collection.ident)
        if overlay is None:
            return base
        end = after_prefix(upper_bound(upper)) or None
        return overlay.merged_entries(index, base, lower_bound(lower), end, after, reverse=reverse)

    def is_multikey(self, index: Index) -> bool:
        return self._snapshot.is_multikey(index) or any(
            overlay.is_multikey(index) for overlay in self._overlays.values()
        )

    def count(self, collection: Collection) -> tuple[int, int]:
        """The number of records, including the transaction's changes, and their size in bytes."""
        number, size = self._snapshot.count(collection)
        overlay = self._overlays.get(collection.ident)
        return (number, size) if overlay is None else (number + overlay.number, size + overlay.size)
