"""Read the history in order from a place, piece by piece."""

from typing import Final

from tailrace.lake.table import HistoryTable
from tailrace.log.event_log import Slice
from tailrace.log.recorded import RowReader

_PIECE_ROWS: Final = 1024
"""Unless one cluster time has more: about what a stream processes before others get their turn."""


class HistoryReader:
    """One pass over the table, by one thread."""

    def __init__(self, table: HistoryTable, rows: RowReader, after: int, through: int) -> None:
        self.place = after
        """The cluster time up to which everything was returned."""
        self.through = through
        self._rows = rows
        self._batches = table.read(after, through, batch_rows=_PIECE_ROWS)
        self._next = next(self._batches, None)

    def next_piece(self) -> Slice:
        """Return the next items; the last ones come with the end of the pass."""
        batch = self._next
        items = [] if batch is None else list(self._rows.items(batch))
        # One batch ahead, so that the last items can be returned with the end.
        self._next = None if batch is None else next(self._batches, None)
        self.place = self.through if self._next is None else items[-1].ts
        return Slice(items, self.place)
