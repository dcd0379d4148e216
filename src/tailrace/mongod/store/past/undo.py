"""What a change leaves in the table `undo`: the record before it, so that earlier states can be read.

Records that were inserted need no document, and consecutive ones share a range. A row holds several changes
of one collection, so that most changes cost no put of their own; its key has the time of the newest one.

======================================== =================================================================
key                                      value
======================================== =================================================================
ident (4), cluster time (8), number (4)  changes: cluster time (8), records added (1), size of the record
                                         key (2), size of the rest (4), record key, the document before;
                                         for inserts the first record key and, in place of a document, the
                                         last one, if record keys count up
ident (4), zeros (8)                     cluster time (8) since which a collection or index is what it is
======================================== =================================================================
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from tailrace.mongod.store.tables import IDENT, TIME, Tables, Transaction, pack_time

INSERTED: Final = 1
CHANGED: Final = 0
REMOVED: Final = -1

Noted: TypeAlias = tuple[bytes, bytes, bytes | None, int]
"""(prefix of the collection, record key, document before, records added) of a change without a time yet.

The document is None for an insert with a record key that counts up, and empty for another insert.
"""

_HEAD: Final = Struct(">QbHI")
_pack_head: Final = _HEAD.pack
_PACKED_BYTES: Final = 900
"""A page of LMDB holds four rows of this size; larger values have pages of their own"""
_EPOCH: Final = bytes(8)


class Place(NamedTuple):
    """Where a row has a document."""

    row: bytes
    start: int
    end: int


class Undo(NamedTuple):
    """One change, or the inserts of a range of record keys."""

    time: int
    added: int
    """`INSERTED`, `CHANGED` or `REMOVED`"""
    key: bytes
    last: bytes
    """The last record key of a range of inserts; otherwise empty"""
    place: Place
    """Where the document before is"""


class UndoWriter:
    """The changes of one unit, from the change to its time to its row."""

    __slots__ = ("_appeared", "_number", "_place", "_tables", "_timed", "_transaction", "noted")

    def __init__(self, tables: Tables, transaction: Transaction) -> None:
        self._tables = tables
        self._transaction = transaction
        self.noted: list[Noted] = []
        """Changes whose log entries are not written yet, in order"""
        self._appeared: list[bytes] = []
        self._place = b""
        self._number = 0
        self._timed: list[tuple[bytes, int, bytes]] = []
        """Prefix of the collection, time and bytes of changes"""

    def appeared(self, prefix: bytes) -> None:
        """Note that a collection was created or renamed, or an index built."""
        self._appeared.append(prefix)

    def first_at(self, time: int, number: int) -> None:
        """Set the time of the first changes that are noted: inserts into one collection, or deletes."""
        noted = self.noted
        prefix, first, before, _ = noted[0]
        last = noted[number - 1][1]
        if before is None and TIME.unpack(last)[0] - TIME.unpack(first)[0] == number - 1:
            self._add_range(prefix, time, first, last)
        else:
            self._at(time, noted[:number])
        del noted[:number]

    def _at(self, time: int, noted: Sequence[Noted]) -> None:
        timed = self._timed
        place, end = 0, len(noted)
        while place < end:
            prefix, key, before, added = noted[place]
            place += 1
            if before is not None:
                head = _pack_head(time, added, len(key), len(before))
                timed.append((prefix, time, b"%b%b%b" % (head, key, before)))
                continue
            first = last = key
            number = TIME.unpack(key)[0] + 1
            while place < end:
                following, key, before, _ = noted[place]
                if before is not None or following != prefix or key != pack_time(number):
                    break
                number, last, place = number + 1, key, place + 1
            self._add_range(prefix, time, first, last)

    def _add_range(self, prefix: bytes, time: int, first: bytes, last: bytes) -> None:
        head = _pack_head(time, INSERTED, len(first), len(last))
        self._timed.append((prefix, time, b"%b%b%b" % (head, first, last)))

    def all_at(self, time: int) -> None:
        """Set the time of everything noted so far: when it becomes visible."""
        if self.noted:
            self._at(time, self.noted)
            self.noted.clear()
        if self._appeared:
            for prefix in self._appeared:
                self._transaction.put(prefix + _EPOCH, pack_time(time), db=self._tables.undo)
            self._appeared = []

    def put(self, now: int) -> None:
        """Store the rows of all changes; those that were not logged happened ``now``."""
        if self.noted or self._appeared:
            self.all_at(now)
        if not self._timed:
            return
        timed, self._timed = self._timed, []
        parts: list[bytes] = []
        size = 0
        prefix, time, _ = timed[0]
        for following, later, change in timed:
            size += len(change)
            if parts and (size > _PACKED_BYTES or following != prefix or later < time):
                self._put_row(prefix, time, parts)
                parts, size = [], len(change)
            prefix, time = following, later
            parts.append(change)
        self._put_row(prefix, time, parts)

    def _put_row(self, prefix: bytes, time: int, changes: list[bytes]) -> None:
        row = b"".join(changes)
        place = prefix + pack_time(time)
        # Many rows may have one time; the next one continues after the number of the last one.
        number = self._number + 1 if place == self._place else 0
        while not self._transaction.put(
            place + IDENT.pack(number), row, overwrite=False, db=self._tables.undo
        ):
            number += 1
        self._place, self._number = place, number


def visible_since(tables: Tables, transaction: Transaction, prefix: bytes) -> int:
    """The time since which a collection or an index is what it is; 0 if that is not known."""
    found = transaction.get(prefix + _EPOCH, db=tables.undo)
    return 0 if found is None else int(TIME.unpack(found)[0])


def forget(tables: Tables, transaction: Transaction, prefix: bytes) -> None:
    """Remove the note of a collection or index that was dropped."""
    transaction.delete(prefix + _EPOCH, db=tables.undo)


def changes_since(tables: Tables, transaction: Transaction, prefix: bytes, time: int) -> Iterator[Undo]:
    """The changes of a collection after a cluster time, in order."""
    with closing(transaction.cursor(db=tables.undo)) as cursor:
        if not cursor.set_range(prefix + pack_time(time + 1)):
            return
        for key, row in cursor:
            if not key.startswith(prefix):
                return
            place = 0
            while place < len(row):
                at, added, key_size, size = _HEAD.unpack_from(row, place)
                place += _HEAD.size
                if at > time:
                    middle = place + key_size
                    last = row[middle : middle + size] if added == INSERTED else b""
                    yield Undo(at, added, row[place:middle], last, Place(key, middle, middle + size))
                place += key_size + size


def document_at(tables: Tables, transaction: Transaction, place: Place) -> bytes:
    """The document before a change."""
    row = transaction.get(place.row, db=tables.undo)
    if row is None:
        raise RuntimeError("a row of changes has gone although its snapshot is open")
    return row[place.start : place.end]


def remove_before(tables: Tables, transaction: Transaction, time: int, most: int) -> int:
    """Remove up to ``most`` rows with changes before a cluster time only; returns how many."""
    gone = 0
    with closing(transaction.cursor(db=tables.undo)) as cursor:
        found = cursor.first()
        while found and gone < most:
            key = cursor.key()
            prefix, at = key[:4], key[4:12]
            if at == _EPOCH:
                found = cursor.next()
            elif at < pack_time(time):
                gone += 1
                # After deleting the last record LMDB reports success with an empty key.
                found = cursor.delete() and cursor.key() != b""
            else:
                ident = IDENT.unpack(prefix)[0]
                found = cursor.set_range(IDENT.pack(ident + 1))
    return gone
