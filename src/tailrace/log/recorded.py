"""Items of the log that come from the history: they have their events already.

An item is some rows of the table, whole cluster times of them. Many streams show document changes as stored:
for those the bytes are cut to shape and no event object is made. For all others the rows become events, equal
to those made of the oplog, once for all streams.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from tailrace.bson.dates import date_value
from tailrace.events.change_event import ChangeEvent
from tailrace.lake.event_reader import EventReader
from tailrace.lake.row_kinds import RowKinds
from tailrace.lake.schema import time_of, times_of
from tailrace.lake.verbatim import VerbatimRows, split_runs
from tailrace.log.event_log import LogItem

_EVENT_WEIGHT: Final = 1500


class RowReader:
    """Makes items of rows; remembers the kinds of rows."""

    def __init__(self) -> None:
        self.events = EventReader()
        self._kinds = RowKinds()

    def items(self, batch: pa.RecordBatch) -> Iterator["RecordedItem"]:
        """Yield rows of whole cluster times as items: those that can be shown as stored, and others."""
        for piece in split_runs(batch, self._kinds):
            if isinstance(piece, VerbatimRows):
                yield RecordedItem(piece.rows, self, piece)
            else:
                yield RecordedItem(piece, self, None)


class RecordedItem(LogItem):
    """Some rows of the history, from the cluster time `begins` up to `ts`."""

    __slots__ = ("_events", "_reader", "_rows", "_weight", "begins", "run", "with_images")

    def __init__(self, rows: pa.RecordBatch, reader: RowReader, run: VerbatimRows | None) -> None:
        super().__init__(time_of(rows, rows.num_rows - 1))
        self.begins = time_of(rows, 0)
        self.run = run
        """Its rows to be shown as stored, if they can be."""
        self.with_images: list[ChangeEvent] = []
        """Those of its events that have a pre-image."""
        self._rows = rows
        self._reader = reader
        self._weight: int = rows.nbytes
        self._events: list[ChangeEvent] | None = None

    @property
    def weight(self) -> int:
        return self._weight + (_EVENT_WEIGHT * len(self._events) if self._events else 0)

    @property
    def events(self) -> Sequence[ChangeEvent]:
        """Its rows as events."""
        if self._events is None:
            self._events = self._reader.events.events(self._rows)
            self.with_images = [event for event in self._events if event.pre_image is not None]
        return self._events

    def forget_images(self, before: int) -> None:
        """Drop the pre-images of changes before a date, in milliseconds."""
        left = []
        for event in self.with_images:
            if date_value(event.entry.wall) < before:
                event.pre_image = None
            else:
                left.append(event)
        self.with_images = left

    def after(self, time: int) -> "Iterator[RecordedItem]":
        """Yield what is after a cluster time inside of it."""
        times = times_of(self._rows)
        return self._reader.items(self._rows.slice(int(np.searchsorted(times, np.uint64(time), "right"))))
