"""Remove the oldest entries of the oplog, when it is too large or when a test asks for it.

Where a history is built from the oplog, an entry stays until the history holds it.
"""

from collections.abc import Callable
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.layout.entry import COMMAND_START
from tailrace.mongod.store.reader import TRUNCATED
from tailrace.mongod.store.table_writer import OPLOG_IDENT
from tailrace.mongod.store.tables import TIME, pack_time
from tailrace.mongod.store.write_unit import WriteUnit

_AT_ONCE: Final = 2000
"""Entries removed in one commit: enough to keep up with any writer, few enough not to delay one"""


def truncate_to_size(unit: WriteUnit, most_bytes: int, held_through: int | None = None) -> None:
    """Remove some of the oldest entries of an oplog larger than a size; the newest one stays.

    Entries from ``held_through`` on stay regardless of the size: the history does not hold the later ones
    yet, and the entry at that time shows its reader that nothing is missing.
    """
    number, size = unit.count_of(OPLOG_IDENT)
    if size <= most_bytes:
        return
    most = min(_AT_ONCE, number - 1)
    _remove_oldest(
        unit,
        held_through,
        lambda _ts, gone, gone_bytes: gone < most and size - gone_bytes > most_bytes,
    )
    unit.put_counts()


def truncate_before(unit: WriteUnit, time: int, held_through: int | None = None) -> None:
    """Remove all entries before a cluster time, except those that the history does not hold yet."""
    _remove_oldest(unit, held_through, lambda ts, _gone, _gone_bytes: ts < time)


def _remove_oldest(
    unit: WriteUnit, held_through: int | None, is_removed: Callable[[int, int, int], bool]
) -> None:
    """Remove entries while ``is_removed`` holds for the next one's time, and the entries and bytes removed.

    Where a history holds the entries, those of one transaction are removed together: no reader could make
    events of the rest.
    """
    state = unit.state
    gone = gone_bytes = 0
    continues = False
    with state.transaction.cursor(db=state.tables.oplog) as cursor:
        found = cursor.first()
        while found:
            ts, entry = TIME.unpack(cursor.key())[0], cursor.value()
            if held_through is not None and ts >= held_through:
                break
            if not (continues or is_removed(ts, gone, gone_bytes)):
                break
            continues = held_through is not None and _is_partial(entry)
            gone += 1
            gone_bytes += len(entry)
            state.truncated_through = ts
            # After deleting the last record LMDB reports success with an empty key.
            found = cursor.delete() and cursor.key() != b""
    if gone:
        unit.add_to_count(OPLOG_IDENT, -gone, -gone_bytes)
        # Stored, because after a restart the oldest entry does not show whether one before it was removed.
        unit.put_meta(TRUNCATED, pack_time(state.truncated_through))


def _is_partial(entry: bytes) -> bool:
    """Whether this entry is part of a transaction that the next entry continues."""
    if not entry.startswith(COMMAND_START, 4):
        return False
    o = rawbson.subdocument(entry, b"o")
    found = None if o is None else rawbson.field(o, b"partialTxn")
    return found is not None and found[1] == b"\x01"
