"""Removing the oldest entries of the oplog: those it has no room for, and those a test does without."""

from collections.abc import Callable
from typing import Final

from tailrace.store.table_writer import OPLOG_IDENT
from tailrace.store.tables import TIME
from tailrace.store.write_unit import WriteUnit

_AT_ONCE: Final = 2000
"""Entries removed in one commit: truncation keeps up with any writer and never holds one up for long"""


def keep_within(unit: WriteUnit, most_bytes: int) -> None:
    """Remove some of the oldest entries of an oplog that has grown beyond a size; the newest one stays."""
    number, size = unit.count_of(OPLOG_IDENT)
    if size <= most_bytes:
        return
    most = min(_AT_ONCE, number - 1)
    _remove_oldest(unit, lambda _ts, gone, gone_bytes: gone < most and size - gone_bytes > most_bytes)
    unit.put_counts()


def remove_before(unit: WriteUnit, time: int) -> None:
    """Remove all entries older than a cluster time."""
    _remove_oldest(unit, lambda ts, _gone, _gone_bytes: ts < time)


def _remove_oldest(unit: WriteUnit, goes_too: Callable[[int, int, int], bool]) -> None:
    """Remove entries as long as ``goes_too``, asked with the next one's time and what is gone already."""
    state = unit.state
    gone = gone_bytes = 0
    with state.transaction.cursor(db=state.tables.oplog) as cursor:
        found = cursor.first()
        while found and goes_too(ts := TIME.unpack(cursor.key())[0], gone, gone_bytes):
            gone += 1
            gone_bytes += len(cursor.value())
            state.truncated_through = ts
            # Behind the last one LMDB stands at an empty key and calls it a success.
            found = cursor.delete() and cursor.key() != b""
    if gone:
        unit.add_to_count(OPLOG_IDENT, -gone, -gone_bytes)
