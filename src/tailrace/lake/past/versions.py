"""The versions of documents, in a file: what a document was before any change that was recorded.

A version is the whole document, or the diff of an update. After some diffs a whole one follows, so that
finding a version takes one look-up in an index and few steps. What is known grows with the changes: a
document that was there before the first of them is known from a snapshot on (`base.py`), from its next insert
or replacement, or from a change that has its pre-image.

A snapshot may be found after later changes were applied. Then these are applied once more, and fill in what
was not known: a change that has a version already is left as it is.

Collections are known by their UUID. One that was dropped and created again, or renamed, needs nothing
special: no document has the past of another one. Each shard has its own documents, those that a migration
copied included.
"""

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike, fspath
from struct import Struct
from typing import Final
from weakref import finalize

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import CHANGES, ChangeEvent
from tailrace.events.update_diff import apply_diff, parse
from tailrace.lake.past.fold import identity_in, identity_of

_PLACE: Final = Struct(">QQ")
_WHOLE: Final = 0
"""The steps of a version that is the document; a diff is so many steps after it."""
_NOTHING: Final = -1
"""Those of a version that is no document: it was deleted, or is not known."""
_MOST_STEPS: Final = 16
_LAST: Final = 0xFFFFFFFFFFFFFFFF
"""After every change of a cluster time"""
_EXPIRED_AT_ONCE: Final = 1000
_FORMAT: Final = 2
_CACHE_KIB: Final = 32 << 10
_UUID_BYTES: Final = 16
_EVERYTHING: Final = b""

_SCHEMA: Final = """
    CREATE TABLE version (document BLOB, place BLOB, steps INTEGER, body BLOB);
    CREATE UNIQUE INDEX version_place ON version (document, place, steps);
    CREATE TABLE gap (collection BLOB, place BLOB);
    CREATE TABLE base (name TEXT PRIMARY KEY);
    CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT);
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes that are missing, up to a cluster time, or a drop: what was known is not true any more."""

    time: int
    collection: bytes = _EVERYTHING
    """The UUID of the only one that this concerns."""


class DocumentVersions:
    """One thread at a time uses it. Without a path it is temporary: in memory, and on disk what is large."""

    def __init__(self, path: str | PathLike[str] = "", *, about: str = "") -> None:
        """``about`` says what the versions are made from; those of something else are forgotten."""
        self._database = sqlite3.connect(fspath(path), isolation_level=None, check_same_thread=False)
        self.close = finalize(self, self._database.close)
        """Closes the file, as the end of this object does"""
        self._database.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        if path:
            self._database.execute("PRAGMA journal_mode = WAL")
            # What a crash of the machine undoes is made again, because `through` is undone with it.
            self._database.execute("PRAGMA synchronous = NORMAL")
        wanted = f"{_FORMAT} {about}"
        if self._about("made from") != wanted:
            self._create(wanted)
        self._gaps = self._stored_gaps()
        """The places of gaps by collection; those of everything have no collection"""
        self.through = int(self._about("through") or 0)
        """The cluster time up to which all changes were applied; 0 if none were."""
        self._repeats_until = int(self._about("repeats until") or 0)
        """Changes up to this cluster time may have versions that were made before."""

    def _stored_gaps(self) -> dict[bytes, list[bytes]]:
        gaps: dict[bytes, list[bytes]] = {}
        for collection, place in self._database.execute("SELECT * FROM gap"):
            gaps.setdefault(collection, []).append(place)
        return gaps

    def _about(self, name: str) -> str | None:
        try:
            found = self._database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError:
            return None  # a new file
        return None if found is None else str(found[0])

    def _set_about(self, name: str, value: int) -> None:
        self._database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, str(value)))

    def _create(self, made_from: str) -> None:
        for (table,) in self._database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall():
            self._database.execute(f"DROP TABLE {table}")
        self._database.executescript(f"BEGIN; {_SCHEMA} COMMIT; VACUUM;")
        self._database.execute("INSERT INTO about VALUES ('made from', ?)", (made_from,))

    # -- changes ------------------------------------------------------------------------------------------

    def apply(self, changes: "Iterable[ChangeEvent | Gap]", through: int) -> None:
        """Apply changes in their order, which are all up to a cluster time; all of them or none."""
        pending = _Pending(self._database)
        self._database.execute("BEGIN")
        try:
            for change in changes:
                if isinstance(change, Gap):
                    pending.write()
                    self._add_gap(change)
                elif change.entry.ts > self.through and change.kind.operation_type in CHANGES:
                    with suppress(CommandError):  # a key that is no BSON, which no other change has
                        self._apply(change, pending)
            pending.write()
            self._set_about("through", through)
        except BaseException:
            self._database.execute("ROLLBACK")
            self._gaps = self._stored_gaps()
            raise
        self._database.execute("COMMIT")
        self.through = max(through, self.through)

    # -- snapshots ----------------------------------------------------------------------------------------

    def lacks(self, base: str) -> bool:
        """Whether the documents of a snapshot were not all added; ``base`` is its name."""
        return not self._database.execute("SELECT 1 FROM base WHERE name = ?", (base,)).fetchone()

    @property
    def bases(self) -> int:
        """How many parts of snapshots were added."""
        return int(self._database.execute("SELECT count(*) FROM base").fetchone()[0])

    def rewind(self, time: int) -> None:
        """Go back to a cluster time: the changes after it are to be applied once more."""
        until = max(self.through, self._repeats_until)
        self._database.execute("BEGIN")
        self._set_about("through", time)
        self._set_about("repeats until", until)
        self._database.execute("COMMIT")
        self.through, self._repeats_until = time, until

    def add_documents(self, collection: bytes, documents: Iterable[bytes]) -> None:
        """Add documents of a collection as they were at the time `through`; may be repeated."""
        place = _PLACE.pack(self.through, _LAST)
        rows = [
            (_name_of(collection, "", identity_in(document)), place, _WHOLE, document)
            for document in documents
        ]
        self._database.execute("BEGIN")
        self._database.executemany("INSERT OR REPLACE INTO version VALUES (?, ?, ?, ?)", rows)
        self._database.execute("COMMIT")

    def finish_base(self, base: str) -> None:
        """All documents of a snapshot were added."""
        self._database.execute("INSERT OR REPLACE INTO base VALUES (?)", (base,))

    # -- single changes -----------------------------------------------------------------------------------

    def _apply(self, event: ChangeEvent, pending: "_Pending") -> None:
        document, place = _document_of(event), _place_of(event)
        if event.entry.ts <= self._repeats_until and pending.is_there(document, place):
            return
        if event.kind.operation_type == "delete":
            pending.add(document, place, _NOTHING, None)
        elif event.update is None:
            pending.add(document, place, _WHOLE, event.full_document)
        else:
            self._update(event, document, place, pending)

    def _update(self, event: ChangeEvent, document: bytes, place: bytes, pending: "_Pending") -> None:
        diff = rawbson.subdocument(event.update or rawbson.EMPTY, b"diff")
        steps = (
            _WHOLE
            if event.pre_image is not None
            else pending.steps(document, self._floor(document, place), place)
        )
        if steps is None or steps == _NOTHING:
            return  # it is not known, and stays so
        try:
            if diff is None:
                raise ValueError("an update without a diff")
            if event.pre_image is not None:
                pending.add(document, place, _WHOLE, apply_diff(event.pre_image, diff))
            elif steps + 1 < _MOST_STEPS:
                parse(diff)
                pending.add(document, place, steps + 1, diff)
            else:
                pending.write()
                before = self._before(document, place)
                whole = None if before is None else apply_diff(before, diff)
                pending.add(document, place, _NOTHING if whole is None else _WHOLE, whole)
        except (CommandError, ValueError):
            pending.add(document, place, _NOTHING, None)

    def _add_gap(self, gap: Gap) -> None:
        row = (gap.collection, _PLACE.pack(gap.time, _LAST - 1))  # before a snapshot of that time
        if row[1] in self._gaps.get(gap.collection, ()):
            return  # of a change that is applied once more
        self._database.execute("INSERT INTO gap VALUES (?, ?)", row)
        self._gaps.setdefault(row[0], []).append(row[1])

    def expire(self, before: int, after_row: int = 0) -> int | None:
        """Remove versions that nobody needs who asks for changes from a cluster time on; some at a time.

        Returns the row after which to continue; None if that was all.
        """
        end = _PLACE.pack(before, 0)
        found = self._database.execute(
            "SELECT rowid, document, place, steps FROM version WHERE rowid > ? ORDER BY rowid LIMIT ?",
            (after_row, _EXPIRED_AT_ONCE),
        ).fetchall()
        rows = [row for row in found if row[2] < end]
        unneeded = [
            (row,)
            for row, document, place, steps in rows
            if steps == _NOTHING
            or place <= self._floor(document, end)
            or self._has_later(document, place, end)
        ]
        # Rows are in the order of changes, unless some were applied once more.
        is_all = len(found) < _EXPIRED_AT_ONCE or (len(rows) < len(found) and not self._repeats_until)
        self._database.execute("BEGIN")
        self._database.executemany("DELETE FROM version WHERE rowid = ?", unneeded)
        if is_all:  # nothing is left before these
            self._database.execute("DELETE FROM gap WHERE place < ?", (end,))
        self._database.execute("COMMIT")
        self._gaps = self._stored_gaps()
        return None if is_all else int(found[-1][0])

    def _has_later(self, document: bytes, place: bytes, end: bytes) -> bool:
        """Whether a later version before a place needs no version before it."""
        row = self._database.execute(
            "SELECT 1 FROM version WHERE document = ? AND place > ? AND place < ? AND steps <= 0 LIMIT 1",
            (document, place, end),
        ).fetchone()
        return row is not None

    @property
    def size(self) -> int:
        """The bytes of the file."""
        pages, of = (
            self._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
        )
        return int(pages) * int(of)

    # -- look-ups -----------------------------------------------------------------------------------------

    def before(self, event: ChangeEvent) -> bytes | None:
        """Return the document before a change; None if it is not known, or a server would show none."""
        if event.entry.extras.from_migrate:
            return None
        try:
            return self._before(_document_of(event), _place_of(event))
        except CommandError:
            return None  # as above

    def _before(self, document: bytes, place: bytes) -> bytes | None:
        diffs: list[bytes] = []
        rows = self._database.execute(
            "SELECT steps, body FROM version WHERE document = ? AND place > ? AND place < ? "
            "ORDER BY place DESC",
            (document, self._floor(document, place), place),
        )
        for steps, body in rows:
            if steps == _NOTHING:
                return None
            if steps == _WHOLE:
                return _applied(body, diffs)
            diffs.append(body)
        return None

    def _floor(self, document: bytes, place: bytes) -> bytes:
        """The newest place before another up to which changes of the collection are missing."""
        if not self._gaps:
            return b""
        gaps = (*self._gaps.get(_EVERYTHING, ()), *self._gaps.get(document[:_UUID_BYTES], ()))
        return max((gap for gap in gaps if gap < place), default=b"")


class _Pending:
    """Versions that are written together."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._rows: list[tuple[bytes, bytes, int, bytes | None]] = []
        self._steps: dict[bytes, int] = {}

    def add(self, document: bytes, place: bytes, steps: int, body: bytes | None) -> None:
        self._rows.append((document, place, steps, body))
        self._steps[document] = steps

    def is_there(self, document: bytes, place: bytes) -> bool:
        """Whether a change has its version from an earlier time."""
        found = self._database.execute(
            "SELECT steps FROM version WHERE document = ? AND place = ?", (document, place)
        ).fetchone()
        if found is not None:
            self._steps[document] = int(found[0])
        return found is not None

    def steps(self, document: bytes, floor: bytes, place: bytes) -> int | None:
        """Those of the newest version of a document between two places; None if it has none."""
        if document in self._steps:
            return self._steps[document]
        found = self._database.execute(
            "SELECT steps FROM version WHERE document = ? AND place > ? AND place < ? "
            "ORDER BY place DESC LIMIT 1",
            (document, floor, place),
        ).fetchone()
        return None if found is None else int(found[0])

    def write(self) -> None:
        self._database.executemany("INSERT OR REPLACE INTO version VALUES (?, ?, ?, ?)", self._rows)
        self._rows.clear()
        self._steps.clear()


def _applied(document: bytes, newest_first: list[bytes]) -> bytes | None:
    try:
        for diff in reversed(newest_first):
            document = apply_diff(document, diff)
    except CommandError:
        return None
    return document


def _document_of(event: ChangeEvent) -> bytes:
    """What names a document: its collection, its shard and its `_id`."""
    return _name_of(event.kind.uuid or b"", event.shard, identity_of(event))


def _name_of(collection: bytes, shard: str, identity: bytes) -> bytes:
    return b"%b%b\0%b" % (collection, shard.encode(), identity)


def _place_of(event: ChangeEvent) -> bytes:
    """The place of a change among those of its shard, as bytes that sort as changes do."""
    return _PLACE.pack(event.entry.ts, event.entry.txn_op_index)
