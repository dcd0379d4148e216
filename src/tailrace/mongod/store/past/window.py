"""How far back the state of the store can be read.

The window has a length in seconds and a size. Its start moves with the newest entry, never back; rows of the
table `undo` that are older are removed with later commits. A table that grows too large shortens the window.
"""

from typing import TYPE_CHECKING, Final

from tailrace.mongod.store.past.past_snapshot import PastSnapshot
from tailrace.mongod.store.past.undo import remove_before
from tailrace.mongod.store.reader import Snapshot, TableReader
from tailrace.mongod.store.tables import TIME, pack_time

if TYPE_CHECKING:
    from tailrace.mongod.store.table_writer import WriteState

DEFAULT_SECONDS: Final = 300
_SINCE: Final = "readableSince"
_MOST_BYTES: Final = 256 << 20
_SHARE: Final = 16
"""The table may take this part of a data directory"""
_AT_ONCE: Final = 4000
"""Rows removed in one commit"""


class PastWindow:
    """The times at which a store can be read."""

    def __init__(self, reader: TableReader, newest: int, map_size: int) -> None:
        self.seconds = DEFAULT_SECONDS
        """`minSnapshotHistoryWindowInSeconds`"""
        found = reader.meta(_SINCE)
        self.since = newest if found is None else int(TIME.unpack(found)[0])
        """The earliest cluster time whose state can be read"""
        self._most_bytes = min(_MOST_BYTES, map_size // _SHARE)
        self._looked = 0
        self._newest = newest

    def open(self, snapshot: Snapshot, time: int) -> PastSnapshot:
        """The state at a cluster time, of which the snapshot is a later one; it closes the snapshot."""
        return PastSnapshot(snapshot, time, is_too_old=time < self.since)

    def trim(self, state: "WriteState") -> None:
        """Move the start, and remove some rows before it; part of each commit."""
        if state.entries:
            self._newest = state.entries[-1][0]
        self.since = max(self.since, self._newest - (self.seconds << 32))
        second = self._newest >> 32
        is_too_large = self._bytes(state) > self._most_bytes
        if second == self._looked and not is_too_large:
            return
        tables, transaction = state.tables, state.transaction
        if is_too_large:
            self.since = _later(self.since, self._newest)
        gone = remove_before(tables, transaction, self.since, _AT_ONCE)
        if gone or not self._looked:
            transaction.put(_SINCE.encode(), pack_time(self.since), db=tables.meta)
            state.changes += 1
        if gone == _AT_ONCE:
            state.has_garbage = True  # the writer continues, even if nothing else is to be written
        else:
            self._looked = second

    @staticmethod
    def _bytes(state: "WriteState") -> int:
        found = state.transaction.stat(state.tables.undo)
        return (found["leaf_pages"] + found["overflow_pages"]) * found["psize"]


def _later(since: int, newest: int) -> int:
    """A start that shortens the window by an eighth: of its seconds, or of the times in its last second.

    The times of one second are few and close together.
    """
    seconds = (newest >> 32) - (since >> 32)
    if seconds:
        return ((since >> 32) + (seconds + 7) // 8) << 32
    return since + (newest - since + 7) // 8
