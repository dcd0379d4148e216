"""Raw entries of all shards to rows of the history, many at a time.

Nearly all entries of an oplog are plain inserts, updates and deletes, or hold some (`plain_entries.py`,
`holders.py`). The first of each kind goes through the stages, which decide what event it is; the others
differ in times, key and document only, and are spliced (`columns.py`). Every other entry takes the general
path, through the stages and `lake/rows.py`. Both give the same bytes; the tests compare them.

Where the compiled kernel is installed (`kernel.py`), it takes what it can first (`compiled.py`), and what is
described above happens to the entries that it leaves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.pre_image_key import has_pre_image, pre_image_of
from tailrace.lake.bulk.columns import PlainRows, SharedParts, bulk_columns
from tailrace.lake.bulk.compiled import NO_ROWS, CompiledRows, ImageAsk
from tailrace.lake.bulk.entry_forms import EntryForms
from tailrace.lake.bulk.holders import HeldRows, Holders, holders_of
from tailrace.lake.bulk.kernel import compiled_kernel
from tailrace.lake.bulk.plain_entries import (
    INSERTED,
    Part,
    PlainEntries,
    changes_of,
    envelope_of,
    joined_entries,
)
from tailrace.lake.bulk.plain_groups import plain_groups
from tailrace.lake.bulk.raw_entries import gathered
from tailrace.lake.bulk.shared_kinds import EventsOf, SharedKinds, sample_of, shared_parts
from tailrace.lake.bulk.splicing import Positions
from tailrace.lake.bulk.transaction_ends import EndRows, TransactionEnd
from tailrace.lake.bulk.transaction_rows import transaction_rows
from tailrace.lake.rows import RowBuilder

PreImageOf: TypeAlias = Callable[[str, bytes, int, int], bytes | None]
"""(shard, collection UUID, cluster time of the entry, index within its applyOps): the document before"""


class BulkRows:
    """Makes batches of rows from time slices of the oplogs; remembers forms and kinds of entries."""

    def __init__(
        self, events_of: EventsOf, pre_image_of: PreImageOf | None = None, *, marks_end: bool = False
    ) -> None:
        """``pre_image_of`` is for sources that store images; it is called in the order of the oplog.

        ``marks_end`` is whether the stages of ``events_of`` make events of the ends of transactions.
        """
        self._events_of = events_of
        self._pre_image_of = pre_image_of
        self._rows = RowBuilder()
        self._forms = EntryForms()
        self._ends = EndRows()
        self._held = HeldRows(marks_end=marks_end)
        self._shared = SharedKinds(events_of)
        module = compiled_kernel()
        self._compiled = None if module is None else CompiledRows(module, self._shared, marks_end=marks_end)
        self.entries = 0
        """How many entries were read."""
        self.general_entries = 0
        """How many of them took the general path."""
        self.compiled_entries = 0
        """How many of them the compiled kernel took."""

    def batch(self, entries: Mapping[str, Sequence[bytes]]) -> pa.RecordBatch:
        """The rows of a time slice, in the order of their tokens.

        A time slice has all entries of every shard between two cluster times.
        """
        if self._compiled is None:
            return bulk_columns(*self._rows_by_numpy(entries, []))
        left = self._compiled.take(entries)
        self.entries += left.taken
        self.compiled_entries += left.taken
        if not left.ends and not any(left.entries.values()) and self._pre_image_of is None:
            return self._compiled.merged(NO_ROWS)
        plain, general = self._rows_by_numpy(left.entries, left.ends)
        if not left.taken:
            return bulk_columns(plain, general)
        return self._compiled.merged(bulk_columns(plain, general) if plain else general)

    def _rows_by_numpy(
        self, entries: Mapping[str, Sequence[bytes]], ends: Sequence[TransactionEnd]
    ) -> tuple[list[PlainRows], pa.RecordBatch]:
        """Return rows to be spliced, and finished ones, those of ``ends`` included."""
        plain, own_ends = self._plain_rows(entries)
        events: list[ChangeEvent] = []
        is_plain = np.zeros(sum(map(len, entries.values())), np.bool_)
        for group in plain:
            is_plain[group.entries.number] = True
        before = 0
        for shard, raws in entries.items():
            others = np.flatnonzero(~is_plain[before : before + len(raws)]).tolist()
            if others:
                events += self._events_of(shard, [raws[index] for index in others])
            before += len(raws)
            self.general_entries += len(others)
        self.entries += before
        finished, other_ends = self._ends.batch([*ends, *own_ends])
        events += other_ends
        if self._compiled is not None:
            self._compiled.learn_ends(self._ends)
        if self._pre_image_of is not None:
            asks = [] if self._compiled is None else self._compiled.asks()
            _add_images(plain, events, asks, self._pre_image_of)
        inside, events = transaction_rows(events, shared_parts)
        if events:
            finished.append(self._rows.batch(events))
        return plain + inside, pa.concat_batches(finished) if finished else NO_ROWS

    def _plain_rows(
        self, entries: Mapping[str, Sequence[bytes]]
    ) -> tuple[list[PlainRows], list[TransactionEnd]]:
        """Return the rows of plain entries and holders, and the ends of transactions.

        The entries of all shards are one run: what is done once for a run costs as much for few entries.
        """
        run = gathered(entries.values())
        if not len(run):
            return [], []
        names = list(entries)
        shards = np.repeat(np.arange(len(names)), [len(raws) for raws in entries.values()])
        buffer = np.frombuffer(run.memory, np.uint8)
        starts = run.starts
        parts: list[Positions] = []
        holders: list[Holders] = []
        for found in self._forms.find(buffer, starts, run.ends):
            held = holders_of(buffer, found, shards)
            if held is not None:
                holders.append(held)
            parts.append(changes_of(buffer, found, envelope_of(buffer, found, shards))[0])

        def shared_of(head: bytes, entries: PlainEntries, row: int) -> SharedParts | None:
            operation, shard = (int(entries.part(part)[row]) for part in (Part.OPERATION, Part.SHARD))
            return self._shared(names[shard], head, operation, lambda: sample_of(entries, row))

        groups = plain_groups(joined_entries(run.memory, buffer, parts), shared_of)
        inside, ends = self._held.rows(names, run.memory, buffer, holders, shared_of)
        return groups + inside, ends


def _add_images(
    plain: Sequence[PlainRows], events: Sequence[ChangeEvent], asks: Sequence[ImageAsk], find: PreImageOf
) -> None:
    """Look up the images of all changes, shard by shard in the order of the oplog."""
    wanted = list(asks)
    for rows in plain:
        if rows.entries.operation == INSERTED:
            continue
        images: list[bytes | None] = [None] * len(rows.entries)
        rows.images = images
        places = zip(
            rows.entries.ts.tolist(), rows.entries.part(Part.INDEX).tolist(), rows.codes.tolist(), strict=True
        )
        for place, (ts, index, code) in enumerate(places):
            shared = rows.shared[code]
            uuid = shared.kind.uuid
            if uuid is not None:
                wanted.append((shared.shard, ts, index, uuid, images, place))
    found: list[bytes | None] = [None] * len(events)
    for place, event in enumerate(events):
        if has_pre_image(event):
            uuid, ts, index = pre_image_of(event)
            wanted.append((event.shard, ts, index, uuid, found, place))
    wanted.sort(key=lambda ask: ask[:3])
    for shard, ts, index, uuid, images, place in wanted:
        images[place] = find(shard, uuid, ts, index)
    for event, image in zip(events, found, strict=True):
        event.pre_image = image
