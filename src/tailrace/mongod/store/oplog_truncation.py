"""Removing the oldest entries of the oplog: those it has no room for, and those a test does without.

Where a history is built from the oplog, an entry stays until the history holds it.
"""

from collections.abc import Callable
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.mongod.store.reader import TRUNCATED
from tailrace.mongod.store.table_writer import OPLOG_IDENT
from tailrace.mongod.store.tables import TIME, pack_time
from tailrace.mongod.store.write_unit import WriteUnit

_COMMAND: Final = b"\x02op\0\x02\0\0\0c\0"
_AT_ONCE: Final = 2000
"""Entries removed in one commit: truncation keeps up with any writer and never holds one up for long"""


def keep_within(unit: WriteUnit, most_bytes: int, held_through: int | None = None) -> None:
    """Remove some of the oldest entries of an oplog that has grown beyond a size; the newest one stays.

    So do entries from ``held_through`` on, whatever the size: nobody else holds the later ones yet, and by
    the one at that time whoever reads on sees that nothing is missing.
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


def remove_before(unit: WriteUnit, time: int, held_through: int | None = None) -> None:
    """Remove all entries older than a cluster time, but none that nobody else holds yet."""
    _remove_oldest(unit, held_through, lambda ts, _gone, _gone_bytes: ts < time)


def _remove_oldest(
    unit: WriteUnit, held_through: int | None, goes_too: Callable[[int, int, int], bool]
) -> None:
    """Remove entries as long as ``goes_too``, asked with the next one's time and what is gone already.

    Where others hold what goes, a transaction goes as a whole: no reader could make events of the rest.
    """
    state = unit.state
    gone = gone_bytes = 0
    goes_on = False
    with state.transaction.cursor(db=state.tables.oplog) as cursor:
        found = cursor.first()
        while found:
            ts, entry = TIME.unpack(cursor.key())[0], cursor.value()
            if held_through is not None and ts >= held_through:
                break
            if not (goes_on or goes_too(ts, gone, gone_bytes)):
                break
            goes_on = held_through is not None and _goes_on(entry)
            gone += 1
            gone_bytes += len(entry)
            state.truncated_through = ts
            # Behind the last one LMDB stands at an empty key and calls it a success.
            found = cursor.delete() and cursor.key() != b""
    if gone:
        unit.add_to_count(OPLOG_IDENT, -gone, -gone_bytes)
        # Kept, because the oldest entry does not tell after a restart whether something is missing before it.
        unit.put_meta(TRUNCATED, pack_time(state.truncated_through))


def _goes_on(entry: bytes) -> bool:
    """Whether this is part of a transaction that the next entry goes on with."""
    if not entry.startswith(_COMMAND, 4):
        return False
    o = rawbson.subdocument(entry, b"o")
    found = None if o is None else rawbson.field(o, b"partialTxn")
    return found is not None and found[1] == b"\x01"
