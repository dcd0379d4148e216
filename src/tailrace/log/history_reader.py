"""Reading the history onwards from a place, piece by piece."""

from typing import Final

from tailrace.lake.table import HistoryTable
from tailrace.log.event_log import Slice
from tailrace.log.recorded import RowReader

_PIECE_ROWS: Final = 1024
"""Unless one cluster time has more: about what a stream works on without giving way to others"""


class HistoryReader:
    """One pass over the table; for one thread."""

    def __init__(self, table: HistoryTable, rows: RowReader, after: int, through: int) -> None:
        self.place = after
        """The cluster time up to which everything was given"""
        self.through = through
        self._rows = rows
        self._batches = table.read(after, through, batch_rows=_PIECE_ROWS)
        self._next = next(self._batches, None)

    def next_piece(self) -> Slice:
        """The next items, and the end of the pass with the last of them."""
        batch = self._next
        items = [] if batch is None else list(self._rows.items(batch))
        # One batch ahead: who gets the last items knows that there is nothing behind them.
        self._next = None if batch is None else next(self._batches, None)
        self.place = self.through if self._next is None else items[-1].ts
        return Slice(items, self.place)
