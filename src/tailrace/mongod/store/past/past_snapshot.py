"""Read the state of a store at an earlier cluster time: a later snapshot, and the changes since undone.

The catalog is the later one: a collection that was created or renamed since cannot be read, and one that was
dropped does not exist.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from heapq import merge

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import in_words
from tailrace.mongod.store.catalog import Catalog, Collection, Index
from tailrace.mongod.store.indexes.index_keys import all_index_keys, stored_key
from tailrace.mongod.store.past.undo import INSERTED, Place, changes_since, document_at, visible_since
from tailrace.mongod.store.reader import Block, Reader, Record, Snapshot
from tailrace.mongod.store.tables import TIME, after_prefix, lower_bound, upper_bound


def too_old(time: int) -> CommandError:
    """The error for a state that can no longer be read."""
    reason = f"Read timestamp {in_words(time)} is older than the oldest available timestamp."
    return CommandError(ErrorCode.SnapshotTooOld, reason)


class _InsertedKeys:
    """Record keys of inserts: ranges of those that count up, and single others."""

    def __init__(self) -> None:
        self._single: set[bytes] = set()
        self._first: list[bytes] = []
        self._last: list[bytes] = []

    def add(self, key: bytes) -> None:
        self._single.add(key)

    def add_range(self, first: bytes, last: bytes) -> None:
        starts, ends = self._first, self._last
        if first in self:
            return  # a transaction has put a record into its place again
        if not starts or first > ends[-1]:
            if starts and _number(first) == _number(ends[-1]) + 1:
                ends[-1] = last
            else:
                starts.append(first)
                ends.append(last)
        else:
            place = bisect_left(starts, first)
            starts.insert(place, first)
            ends.insert(place, last)

    def __contains__(self, key: bytes) -> bool:
        place = bisect_right(self._first, key) - 1
        return (place >= 0 and key <= self._last[place]) or key in self._single

    def __bool__(self) -> bool:
        return bool(self._first or self._single)


class _Past:
    """What is different in one collection at an earlier time."""

    def __init__(self, document_at: Callable[[Place], bytes]) -> None:
        self.inserted = _InsertedKeys()
        self.places: dict[bytes, Place] = {}
        """Where the documents are that were changed or removed since, by record key"""
        self._document_at = document_at
        self.keys: list[bytes] = []
        """Their record keys, sorted"""
        self.added = 0
        """Number of records that were added since"""
        self._listed: dict[int, list[tuple[bytes, bytes]]] = {}

    def hides(self, key: bytes) -> bool:
        """Whether the later record of that key was not there, or was another."""
        return key in self.places or key in self.inserted

    def document(self, key: bytes) -> bytes | None:
        """The document that was changed or removed since; None for an inserted one."""
        place = self.places.get(key)
        return None if place is None else self._document_at(place)

    def listed(self, index: Index) -> list[tuple[bytes, bytes]]:
        """The index's entries of the changed documents, sorted."""
        found = self._listed.get(index.ident)
        if found is None:
            found = self._listed[index.ident] = sorted(
                (stored_key(index, index_key, key), key)
                for key, place in self.places.items()
                for index_key in all_index_keys(index, self._document_at(place))
            )
        return found

    def records(self, after: bytes | None, *, reverse: bool) -> Iterator[Record]:
        keys = self.keys
        if reverse:
            end = len(keys) if after is None else bisect_left(keys, after)
            places = range(end - 1, -1, -1)
        else:
            places = range(0 if after is None else bisect_right(keys, after), len(keys))
        found = self._document_at
        return ((keys[place], found(self.places[keys[place]])) for place in places)

    def entries(
        self, index: Index, lower: bytes, upper: bytes, after: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, bytes]]:
        listed = self.listed(index)
        if after is not None and reverse:
            upper = min(upper, after) if upper else after
        elif after is not None:
            lower = max(lower, after + b"\0")
        start = bisect_left(listed, (lower,))
        end = bisect_left(listed, (upper,)) if upper else len(listed)
        places = range(end - 1, start - 1, -1) if reverse else range(start, end)
        return (listed[place] for place in places)


class PastSnapshot(Snapshot):
    """The state at a cluster time."""

    def __init__(self, later: Snapshot, time: int, *, is_too_old: bool) -> None:
        super().__init__(later._tables, later._transaction, later.catalog)
        self._time = time
        self._is_too_old = is_too_old
        self._pasts: dict[int, _Past] = {}
        self._visible: dict[int, Collection] = {}
        self._later = later.catalog
        self._catalog = _PastCatalog(later.catalog, self._collection)

    def newest_time(self) -> int:
        return self._time

    def known(self, uuid: bytes) -> Collection | None:
        return self._later.by_uuid(uuid)

    # -- the catalog ------------------------------------------------------------------------------------

    def _collection(self, collection: Collection | None) -> Collection | None:
        """A collection with the indexes that it had; SnapshotUnavailable (246) if it is too new."""
        if collection is None:
            if self._is_too_old:
                raise too_old(self._time)
            return None
        found = self._visible.get(collection.ident)
        if found is None:
            self._check_visible(collection)
            indexes = tuple(index for index in collection.indexes if self._since(index.prefix) <= self._time)
            found = collection
            if len(indexes) < len(collection.indexes):
                found = collection.with_changes(indexes=indexes)
            self._visible[collection.ident] = found
        return found

    def _check_visible(self, collection: Collection) -> None:
        if collection.is_capped or collection.table == "oplog":
            raise CommandError(
                ErrorCode.SnapshotUnavailable,
                "Reading from capped collections with readConcern snapshot is not supported",
            )
        since = self._since(collection.prefix) if collection.prefix else 0
        if since > self._time:
            raise CommandError(
                ErrorCode.SnapshotUnavailable,
                "Unable to read from a snapshot due to pending collection catalog changes; please retry the "
                f"operation. Snapshot timestamp is {in_words(self._time)}. "
                f"Collection minimum is {in_words(since)}",
            )
        if self._is_too_old:
            raise too_old(self._time)

    def _since(self, prefix: bytes) -> int:
        return visible_since(self._tables, self._transaction, prefix)

    # -- records ----------------------------------------------------------------------------------------

    def _past(self, collection: Collection) -> _Past | None:
        """What is different; None if nothing is."""
        if not collection.prefix or not collection.is_logged:
            return None
        past = self._pasts.get(collection.ident)
        if past is None:
            past = self._pasts[collection.ident] = self._read_past(collection)
        return past if past.keys or past.inserted else None

    def _read_past(self, collection: Collection) -> _Past:
        past = _Past(partial(document_at, self._tables, self._transaction))
        inserted, places = past.inserted, past.places
        for change in changes_since(self._tables, self._transaction, collection.prefix, self._time):
            if change.added != INSERTED:
                past.added += change.added
                if change.key not in inserted:
                    places.setdefault(change.key, change.place)
                continue
            if change.last:
                past.added += _number(change.last) - _number(change.key) + 1
                inserted.add_range(change.key, change.last)
            else:
                past.added += 1
                inserted.add(change.key)
        past.keys = sorted(places)
        return past

    def record(self, collection: Collection, key: bytes) -> bytes | None:
        past = self._past(collection)
        if past is not None and past.hides(key):
            return past.document(key)
        return super().record(collection, key)

    def record_key(self, collection: Collection, id_key: bytes) -> bytes | None:
        past = self._past(collection)
        index = collection.id_index
        if past is None or index is None:
            return super().record_key(collection, id_key)
        return self.record_key_at(collection, index, id_key)

    def record_key_at(self, collection: Collection, index: Index, index_key: bytes) -> bytes | None:
        key = super().record_key_at(collection, index, index_key)
        past = self._past(collection)
        if past is None or (key is not None and not past.hides(key)):
            return key
        listed = past.listed(index)
        place = bisect_left(listed, (index_key,))
        if place < len(listed) and listed[place][0] == index_key:
            return listed[place][1]
        return None

    def records(
        self, collection: Collection, after: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[Record]:
        later = super().records(collection, after, reverse=reverse)
        past = self._past(collection)
        if past is None:
            return later
        hides = past.hides
        kept = (record for record in later if not hides(record[0]))
        return merge(kept, past.records(after, reverse=reverse), key=_first, reverse=reverse)

    def block(
        self, collection: Collection, after: bytes | None, stop: bytes | None, *, count: int, size: int
    ) -> Block:
        if self._past(collection) is None:
            return super().block(collection, after, stop, count=count, size=size)
        return Reader.block(self, collection, after, stop, count=count, size=size)

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
        later = super().index_entries(collection, index, lower, upper, after=after, reverse=reverse)
        past = self._past(collection)
        if past is None:
            return later
        hides = past.hides
        kept = (entry for entry in later if not hides(entry[1]))
        end = after_prefix(upper_bound(upper))
        changed = past.entries(index, lower_bound(lower), end, after, reverse=reverse)
        return merge(kept, changed, key=_first, reverse=reverse)

    def count(self, collection: Collection) -> tuple[int, int]:
        """The number of records at that time, and the size of the later ones."""
        number, size = super().count(collection)
        past = self._past(collection)
        return (number, size) if past is None else (number - past.added, size)


class _PastCatalog(Catalog):
    """The catalog of the later state; looking up a collection checks it."""

    __slots__ = ("_checked",)

    def __init__(self, later: Catalog, checked: Callable[[Collection | None], Collection | None]) -> None:
        self.share(later)
        self._checked = checked

    def collection(self, ns: str) -> Collection | None:
        return self._checked(super().collection(ns))

    def by_uuid(self, uuid: bytes) -> Collection | None:
        return self._checked(super().by_uuid(uuid))


def _first(found: tuple[bytes, bytes]) -> bytes:
    return found[0]


def _number(key: bytes) -> int:
    return int(TIME.unpack(key)[0])
