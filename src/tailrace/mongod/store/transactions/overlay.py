"""The changes of a transaction to one collection, held in memory on top of a snapshot.

A changed record hides the snapshot's record of the same key, and its index keys hide those of the old
document. Reading merges both in the order of keys. The transaction may change something while a reader is
half-way through: the reader looks up its place again at each step, so it never returns to keys it has passed.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import all_index_keys, stored_key
from tailrace.mongod.store.reader import Record

V = TypeVar("V")
_NOTHING: Final = object()


def _after(key: bytes, *, reverse: bool) -> bytes:
    """The bound that excludes a key and everything before it."""
    return key if reverse else key + b"\0"


class SortedTable(Generic[V]):
    r"""Values by key, with the keys in sorted order.

    >>> table = SortedTable[int]()
    >>> table.put(b"b", 2)
    >>> table.put(b"a", 1)
    >>> table.next_key(b""), table.next_key(b"a\0"), table.next_key(b"c")
    (b'a', b'b', None)
    >>> table.next_key(None, reverse=True), table.next_key(b"b", reverse=True)
    (b'b', b'a')
    """

    def __init__(self) -> None:
        self._values: dict[bytes, V] = {}
        self._keys: list[bytes] = []

    def __contains__(self, key: bytes) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._keys)

    def get(self, key: bytes) -> V | None:
        return self._values.get(key)

    def put(self, key: bytes, value: V) -> None:
        if key not in self._values:
            if not self._keys or key > self._keys[-1]:
                self._keys.append(key)
            else:
                insort(self._keys, key)
        self._values[key] = value

    def remove(self, key: bytes) -> None:
        """Remove a key, which must exist."""
        del self._values[key]
        del self._keys[bisect_left(self._keys, key)]

    def next_key(self, bound: bytes | None, *, reverse: bool = False) -> bytes | None:
        """The first key at or after a bound; with ``reverse`` the last before it, where None is the end."""
        keys = self._keys
        if reverse:
            place = (len(keys) if bound is None else bisect_left(keys, bound)) - 1
            return keys[place] if place >= 0 else None
        place = bisect_left(keys, bound or b"")
        return keys[place] if place < len(keys) else None

    def merged(
        self,
        base: Iterator[tuple[bytes, V]],
        is_hidden: Callable[[bytes, V], bool],
        bound: bytes | None,
        *,
        reverse: bool,
    ) -> Iterator[tuple[bytes, V]]:
        """The table's items from a bound on, merged with those of ``base`` that are not hidden.

        ``base`` is sorted in the same direction and within the bound already.
        """
        ahead = next(base, None)
        while True:
            own = self.next_key(bound, reverse=reverse)
            if ahead is not None and (own is None or (ahead[0] > own if reverse else ahead[0] < own)):
                item, ahead = ahead, next(base, None)
                # It may have been changed since it was read ahead.
                if not is_hidden(*item):
                    bound = _after(item[0], reverse=reverse)
                    yield item
            elif own is None:
                return
            else:
                if ahead is not None and ahead[0] == own:
                    ahead = next(base, None)
                bound = _after(own, reverse=reverse)
                yield own, self._values[own]


class Overlay:
    """The changes of a transaction to one collection."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        """As of the transaction's catalog"""
        self.records: SortedTable[bytes | None] = SortedTable()
        """Documents by record key; None for deleted ones"""
        self.number = 0
        """Difference in the number of records to the snapshot"""
        self.size = 0
        """Difference in bytes to the snapshot"""
        self._listed: dict[int, SortedTable[bytes]] = {}
        self._places_of: dict[bytes, list[tuple[int, bytes]]] = {}
        self._multikey: set[int] = set()
        self._undo: list[tuple[bytes, object, int, int]] = []

    # -- changes ----------------------------------------------------------------------------------------

    def put(self, key: bytes, before: bytes | None, after: bytes | None) -> None:
        """Change a record from one document to another; None means no document.

        Raises before anything is changed if an index cannot take the document.
        """
        listed = self._places(key, after)
        old = self.records.get(key) if key in self.records else _NOTHING
        self._undo.append((key, old, self.number, self.size))
        self.number += (after is not None) - (before is not None)
        self.size += len(after or b"") - len(before or b"")
        self._unlist(key)
        self._list(key, after, listed)

    def checkpoint(self) -> None:
        """Set the point to which `undo` returns."""
        self._undo.clear()

    def undo(self) -> None:
        """Undo everything since `checkpoint`."""
        while self._undo:
            key, old, self.number, self.size = self._undo.pop()
            self._unlist(key)
            if old is _NOTHING:
                self.records.remove(key)
            else:
                document = old if isinstance(old, bytes) else None
                self._list(key, document, self._places(key, document))

    def _places(self, key: bytes, document: bytes | None) -> list[tuple[int, bytes]]:
        """The index entries of a document: idents of indexes, and positions in them."""
        if document is None:
            return []
        places = []
        for index in self.collection.indexes:
            keys = all_index_keys(index, document)
            if len(keys) > 1:
                self._multikey.add(index.ident)
            places += [(index.ident, stored_key(index, index_key, key)) for index_key in keys]
        return places

    def _list(self, key: bytes, document: bytes | None, places: list[tuple[int, bytes]]) -> None:
        self.records.put(key, document)
        for ident, place in places:
            table = self._listed.get(ident)
            if table is None:
                table = self._listed[ident] = SortedTable()
            table.put(place, key)
        if places:
            self._places_of[key] = places

    def _unlist(self, key: bytes) -> None:
        for ident, place in self._places_of.pop(key, ()):
            self._listed[ident].remove(place)

    # -- reading ----------------------------------------------------------------------------------------

    def merged_records(
        self, base: Iterator[Record], after: bytes | None, *, reverse: bool
    ) -> Iterator[Record]:
        """The collection's records after a record key; ``base`` are those of the snapshot."""
        items: Iterator[tuple[bytes, bytes | None]] = iter(base)
        bound = None if after is None else _after(after, reverse=reverse)
        for key, document in self.records.merged(items, self._is_changed, bound, reverse=reverse):
            if document is not None:
                yield key, document

    def _is_changed(self, key: bytes, _document: bytes | None) -> bool:
        return key in self.records

    def merged_entries(
        self,
        index: Index,
        base: Iterator[tuple[bytes, bytes]],
        lower: bytes,
        upper: bytes | None,
        after: bytes | None,
        *,
        reverse: bool,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Positions in an index, at or above ``lower`` and below ``upper``, and the record keys they lead to.

        ``base`` are the snapshot's, of the same range and after the position ``after``, if it is given.
        """
        table = self._listed.get(index.ident, SortedTable[bytes]())
        first = upper if reverse else lower
        bound = first if after is None else _after(after, reverse=reverse)
        for place, key in table.merged(base, self._is_relisted, bound, reverse=reverse):
            if place < lower or (upper is not None and place >= upper):
                return
            yield place, key

    def _is_relisted(self, _position: bytes, key: bytes) -> bool:
        return key in self.records

    def record_key(self, index: Index, index_key: bytes) -> bytes | None:
        """The key of the changed record that has a key in a unique index."""
        table = self._listed.get(index.ident)
        return None if table is None else table.get(index_key)

    def lists(self, index: Index, index_key: bytes) -> bool:
        """Whether a changed record has this key in an index."""
        table = self._listed.get(index.ident)
        place = None if table is None else table.next_key(index_key)
        return place is not None and (place == index_key if index.unique else place.startswith(index_key))

    def is_multikey(self, index: Index) -> bool:
        """Whether a changed document has several keys in an index."""
        return index.ident in self._multikey
