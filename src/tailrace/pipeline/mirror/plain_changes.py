"""Oplog entries to changes of rows; the plain ones many at a time, without an event for each.

Nearly all entries are inserts, updates and deletes that differ in times, key and document only. All others,
and those of documents whose key has several fields, go through the stages. Both give the same changes.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.bson.keystring.layout import GENERIC
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import NO_INDEX
from tailrace.events.layout.template import Template
from tailrace.events.update_diff import DIFF_START
from tailrace.lake.bulk.columns import SharedParts
from tailrace.lake.bulk.entry_forms import EntryForms
from tailrace.lake.bulk.plain_entries import (
    DELETED,
    INSERTED,
    REPLACED,
    UPDATED,
    Part,
    PlainEntries,
    changes_of,
    ends_of_ids,
    envelope_of,
    joined_entries,
)
from tailrace.lake.bulk.plain_groups import distinct_heads
from tailrace.lake.bulk.raw_entries import RawEntries, gathered
from tailrace.lake.bulk.shared_kinds import SharedKinds, sample_of
from tailrace.lake.bulk.splicing import (
    HEX,
    Group,
    Piece,
    Positions,
    Slices,
    big_endian,
    chosen,
    hexed,
    spliced,
)
from tailrace.lake.mirror.bulk_keys import row_keys
from tailrace.lake.mirror.merge import DELETE, DIFF, WRITE, RowChange
from tailrace.sources.shard_events import ShardStages

_KINDS: Final = {INSERTED: WRITE, REPLACED: WRITE, UPDATED: DIFF, DELETED: DELETE}
_ID_NAME: Final = b"_id\0".hex().upper().encode()
_BRACKETS: Final = np.array([GENERIC.get(kind, 0) for kind in range(256)], np.uint8)
"""What a token has before the name of a field, by the type of its value"""


class NamedChange(NamedTuple):
    """A change of a document, and its collection."""

    namespace: str
    change: RowChange


Item: TypeAlias = NamedChange | ChangeEvent
"""A change of a mirrored collection, or an event of any"""


class ShardChanges:
    """Reads one shard's entries; remembers their forms and kinds."""

    def __init__(self, stages: ShardStages, is_mirrored: Callable[[str], bool]) -> None:
        self._stages = stages
        self._is_mirrored = is_mirrored
        self._forms = EntryForms()
        self._kinds = SharedKinds(lambda _, raws: stages.events(raws))

    def items(self, raws: Sequence[bytes]) -> list[Item]:
        """What the next entries change, in their order."""
        run = gathered([raws])
        is_other = np.ones(len(run), np.bool_)
        changes: list[NamedChange] = []
        entries = self._plain(run)
        if len(entries):
            entries, codes, shared = self._known(entries)
            is_other[entries.number] = False
            changes = self._changes(entries, codes, shared)
        others = np.flatnonzero(is_other).tolist()
        return _interleaved(changes, self._stages.events([run[place] for place in others]) if others else [])

    def _plain(self, run: RawEntries) -> PlainEntries:
        """The plain entries whose key is an `_id` alone, in order."""
        buffer = np.frombuffer(run.memory, np.uint8)
        shards = np.zeros(len(run), np.int64)
        parts = [
            changes_of(buffer, found, envelope_of(buffer, found, shards))[0]
            for found in self._forms.find(buffer, run.starts, run.ends)
        ]
        entries = joined_entries(run.memory, buffer, parts)
        end = entries.key + entries.key_size - 1
        single = np.flatnonzero((ends_of_ids(buffer, entries.key) == end) & (buffer[end] == 0))
        return entries.at(single[np.argsort(entries.number[single])])

    def _known(self, entries: PlainEntries) -> tuple[PlainEntries, Positions, list[SharedParts]]:
        """The entries that share what the stages make of one of them; the number of what each shares."""
        firsts, codes, is_alike = distinct_heads(entries)
        places = np.full(len(firsts), -1)
        found: list[SharedParts] = []
        head, operation = entries.part(Part.HEAD), entries.part(Part.OPERATION)
        ends = head + entries.part(Part.HEAD_SIZE)
        for code, first in enumerate(firsts.tolist()):
            text = entries.memory[int(head[first]) : int(ends[first])]
            shared = self._kinds("", text, int(operation[first]), partial(sample_of, entries, first))
            if shared is not None:
                places[code] = len(found)
                found.append(shared)
        own = places[codes]
        rows = np.flatnonzero((own >= 0) & is_alike)
        return entries.at(rows), own[rows], found

    def _changes(
        self, entries: PlainEntries, codes: Positions, shared: Sequence[SharedParts]
    ) -> list[NamedChange]:
        names = [f"{parts.kind.database}.{parts.kind.collection}" for parts in shared]
        rows = np.flatnonzero(np.array(list(map(self._is_mirrored, names)), np.bool_)[codes])
        if not len(rows):
            return []
        entries, codes = entries.at(rows), codes[rows]
        keys = _keys(entries)
        changes = map(
            RowChange,
            keys.to_pylist(),
            map(_KINDS.__getitem__, entries.part(Part.OPERATION).tolist()),
            _payloads(entries),
            times := entries.ts.tolist(),
            _tokens(entries, keys, codes, [parts.kind.token for parts in shared]).to_pylist(),
            times,
        )
        return list(map(NamedChange, map(names.__getitem__, codes.tolist()), changes))


def _keys(entries: PlainEntries) -> pa.Array:
    documents = Slices(entries.buffer, entries.key, entries.key_size)
    return row_keys(spliced(len(entries), [Group(np.arange(len(entries)), [documents])], pa.binary()))


def _payloads(entries: PlainEntries) -> Iterable[bytes]:
    """The documents, the diffs and the keys."""
    is_diff = entries.part(Part.OPERATION) == UPDATED
    starts = entries.o + is_diff * DIFF_START
    ends = entries.o + entries.o_size - is_diff
    memory = entries.memory
    return [memory[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _tokens(
    entries: PlainEntries, keys: pa.Array, codes: Positions, templates: Sequence[Template]
) -> pa.Array:
    """The texts of the resume tokens. The key of an `_id` is in them as in an index."""
    _, offsets, data = keys.buffers()
    starts = 2 * np.frombuffer(offsets, np.int32)[: len(keys) + 1].astype(np.int64)
    digits = HEX[np.frombuffer(data, np.uint8)].view(np.uint8)
    texts = Slices(digits, starts[:-1], np.diff(starts) - 2)  # without the byte that ends a key
    brackets = _BRACKETS[entries.buffer[entries.key + 4]].reshape(-1, 1)
    time, version, kind, end = (
        chosen([template.fixed[place] for template in templates], codes) for place in range(4)
    )
    pieces: list[Piece] = [time, hexed(big_endian(entries.ts)), version, NO_INDEX, kind]
    pieces += [hexed(brackets), _ID_NAME, texts, end]
    return spliced(len(entries), [Group(np.arange(len(entries)), pieces)], pa.string())


def _interleaved(changes: list[NamedChange], events: Sequence[ChangeEvent]) -> list[Item]:
    """Changes and events by their cluster times; an entry of a shard has a time of its own."""
    if not events:
        return list[Item](changes)
    times = [change.change.time for change in changes]
    items: list[Item] = []
    taken = 0
    for event in events:
        place = bisect_left(times, event.entry.ts, taken)
        items += changes[taken:place]
        items.append(event)
        taken = place
    return [*items, *changes[taken:]]
