"""Raw entries of all shards to rows of the history, many at a time.

Nearly all entries of an oplog are plain inserts, updates and deletes (`plain_entries.py`). The first of each
kind goes through the stages, which decide what event it is; the others differ in times, key and document
only, and are spliced (`columns.py`). Every other entry takes the general road, through the stages and
`rows.py`. Both give the same bytes; the tests compare them.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import OBJECT_ID_LEAD, single_id_hex
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN
from tailrace.events.pre_image_key import has_pre_image, pre_image_of
from tailrace.lake.bulk.columns import PlainRows, SharedParts, bulk_columns, stored_layout
from tailrace.lake.bulk.descriptions import BulkDescriptions
from tailrace.lake.bulk.plain_entries import INSERTED, OPERATIONS, UPDATED, PlainEntries, find_plain
from tailrace.lake.bulk.splicing import Slices, hexed, items, lines, slices_of
from tailrace.lake.bulk.transaction_rows import transaction_rows
from tailrace.lake.rows import RowBuilder, names_of

EventsOf: TypeAlias = Callable[[str, Sequence[bytes]], Sequence[ChangeEvent]]
"""(shard, entries of it in order): their canonical events"""
PreImageOf: TypeAlias = Callable[[str, bytes, int, int], bytes | None]
"""(shard, collection UUID, cluster time of the entry, index within its applyOps): the document before"""
_Ask: TypeAlias = tuple[str, int, int, bytes, list[bytes | None], int]
"""(shard, cluster time, index, collection UUID; the list that the answer goes into, and where)"""

_MANY_KINDS: Final = 64
"""how many kinds of plain entries are spliced in a time slice; the rest takes the general road"""
_OBJECT_ID_KEY: Final = 22
_OBJECT_ID_SIZE: Final = 12


class BulkRows:
    """Makes batches of rows from time slices of the oplogs; remembers the kinds of rows."""

    def __init__(self, events_of: EventsOf, pre_image_of: PreImageOf | None = None) -> None:
        """``pre_image_of`` is for sources that store images; it is called in the order of the oplog."""
        self._events_of = events_of
        self._pre_image_of = pre_image_of
        self._rows = RowBuilder()
        self._known: dict[tuple[str, bytes, int], SharedParts] = {}

    def batch(self, entries: Mapping[str, Sequence[bytes]]) -> pa.RecordBatch:
        """The rows of a time slice, in the order of their tokens.

        A time slice has all entries of every shard between two cluster times.
        """
        plain: list[PlainRows] = []
        events: list[ChangeEvent] = []
        for shard, raws in entries.items():
            groups = self._plain_rows(shard, raws)
            is_plain = np.zeros(len(raws), np.bool_)
            for group in groups:
                is_plain[group.entries.number] = True
            plain += groups
            others = np.flatnonzero(~is_plain).tolist()
            if others:
                events += self._events_of(shard, [raws[index] for index in others])
        if self._pre_image_of is not None:
            _add_images(plain, events, self._pre_image_of)
        inside, events = transaction_rows(events, shared_parts)
        return bulk_columns(plain + inside, self._rows.batch(events))

    def _plain_rows(self, shard: str, raws: Sequence[bytes]) -> list[PlainRows]:
        found = find_plain(raws)
        groups: list[PlainRows] = []
        waiting = np.arange(len(found))
        for _ in range(_MANY_KINDS):
            if not len(waiting):
                break
            is_alike = _like_first(found, waiting)
            alike = found.at(waiting[is_alike])
            waiting = waiting[~is_alike]
            shared = self._shared(shard, raws[int(alike.number[0])], alike)
            if shared is not None:
                groups += _by_key(shared, shard, alike)
        return groups

    def _shared(self, shard: str, raw: bytes, alike: PlainEntries) -> SharedParts | None:
        """What the rows of these entries share; None if they need the general road."""
        beginning = alike.memory[alike.beginning[0] : alike.o[0]]
        place = (shard, beginning, int(alike.operation[0]))
        if place in self._known:
            return self._known[place]
        events = self._events_of(shard, [raw])
        if len(events) != 1:
            return None
        event = events[0]
        if event.ddl is not None or event.entry.extras is not PLAIN or event.document_key is None:
            return None
        if OPERATIONS.get(event.kind.operation_type) != place[2] or stored_layout(event.kind) is None:
            return None
        return remember(self._known, place, shared_parts(event))


def shared_parts(event: ChangeEvent) -> SharedParts:
    """What the rows of document changes like this one share."""
    kind = event.kind
    return SharedParts(kind, names_of(kind))


def _add_images(plain: Sequence[PlainRows], events: Sequence[ChangeEvent], find: PreImageOf) -> None:
    """Look up the images of all changes, shard by shard in the order of the oplog."""
    wanted: list[_Ask] = []
    for rows in plain:
        uuid = rows.shared.kind.uuid
        if uuid is not None and rows.entries.operation[0] != INSERTED:
            images: list[bytes | None] = [None] * len(rows.entries)
            rows.images = images
            wanted += [
                (rows.shard, ts, 0, uuid, images, place) for place, ts in enumerate(rows.entries.ts.tolist())
            ]
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


def _like_first(found: PlainEntries, waiting: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which entries are the same operation on the same collection as the first one that waits."""
    first = waiting[0]
    width = int(found.o[first] - found.beginning[first])
    is_alike: npt.NDArray[np.bool_] = (found.o[waiting] - found.beginning[waiting] == width) & (
        found.operation[waiting] == found.operation[first]
    )
    candidates = np.flatnonzero(is_alike)
    shared = items(found.buffer, f"V{width}")
    is_alike[candidates] = shared[found.beginning[waiting[candidates]]] == shared[found.beginning[first]]
    return is_alike


def _by_key(shared: SharedParts, shard: str, entries: PlainEntries) -> list[PlainRows]:
    """Rows by the sort of their keys, without those whose key or diff needs the general road."""
    entries, descriptions = _described(entries)
    buffer, key = entries.buffer, entries.key
    has_object_id = (
        (entries.key_size == _OBJECT_ID_KEY)
        & (buffer[key + 4] == 7)
        & (items(buffer, "<i4")[key + 5] == int.from_bytes(b"_id\0", "little"))
    )
    groups = []
    chosen = np.flatnonzero(has_object_id)
    if len(chosen):
        own = entries.at(chosen)
        identifiers = lines(buffer, own.key + 9, _OBJECT_ID_SIZE)
        pieces = (OBJECT_ID_LEAD, hexed(identifiers))
        groups.append(PlainRows(shared, shard, own, pieces, identifiers, _some(descriptions, chosen)))
    chosen = np.flatnonzero(~has_object_id)
    if len(chosen):
        texts = [single_id_hex(key) for key in entries.at(chosen).document_keys()]
        chosen = chosen[[text is not None for text in texts]]
        hexes = slices_of([text for text in texts if text is not None])
        groups.append(
            PlainRows(shared, shard, entries.at(chosen), (hexes,), None, _some(descriptions, chosen))
        )
    return [group for group in groups if len(group.entries)]


def _described(entries: PlainEntries) -> tuple[PlainEntries, Slices | None]:
    """Updates with their descriptions, without those that cannot be described."""
    if entries.operation[0] != UPDATED:
        return entries, None
    descriptions, is_described = BulkDescriptions(entries).described()
    if is_described.all():
        return entries, descriptions
    good = np.flatnonzero(is_described)
    return entries.at(good), _some(descriptions, good)


def _some(slices: Slices | None, rows: npt.NDArray[np.int64]) -> Slices | None:
    return None if slices is None else Slices(slices.buffer, slices.starts[rows], slices.lengths[rows])
