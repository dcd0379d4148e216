"""The plain inserts, updates and deletes among many oplog entries, found without a step for each.

Plain is an entry that changes one document and whose fields say nothing unusual about it: it may belong to a
session or be retryable. The operations inside of transactions and batches are found in the same way. What is
damaged, or has a wall time before 1970 or after the year 9999, is left to the general path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import LAST_DATE
from tailrace.events.layout.entry import (
    PREVIOUS_LEAD,
    PREVIOUS_SIZE,
    TAIL_LEADS,
    TAIL_OFFSETS,
    TAIL_SIZE,
    TAIL_WIDTH,
)
from tailrace.events.layout.template import TIME
from tailrace.events.update_diff import DELTA_LEAD, DIFF_START
from tailrace.lake.bulk.entry_forms import SIZED, Found
from tailrace.lake.bulk.splicing import Bytes, MaskedText, Positions, have_bytes, items

INSERTED, REPLACED, UPDATED, DELETED = range(4)
OPERATIONS: Final = {"insert": INSERTED, "replace": REPLACED, "update": UPDATED, "delete": DELETED}

NOWHERE: Final = -1
"""The place of a field that an entry does not have"""
LONGEST_HEAD: Final = 1024


class Part(IntEnum):
    """What is known of a plain entry: numbers, and where its parts begin."""

    NUMBER = 0
    """which of all entries it is, or is in"""
    OPERATION = auto()
    HEAD = auto()
    """`op`, `ns` and `ui`: the same bytes in all entries of one operation on one collection"""
    HEAD_SIZE = auto()
    O = auto()  # noqa: E741 - the name of the field
    O_SIZE = auto()
    KEY = auto()
    KEY_SIZE = auto()
    TIME = auto()
    WALL = auto()
    LSID = auto()
    LSID_SIZE = auto()
    TRANSACTION_NUMBER = auto()
    INDEX = auto()
    """its position in the `applyOps`"""
    SHARD = auto()
    """the number of the shard that it is of"""


@dataclass(frozen=True, slots=True)
class PlainEntries:
    """Where the parts of plain entries are."""

    memory: bytes
    buffer: Bytes
    """the same for numpy, padded"""
    parts: Positions
    """a line for each `Part`, an item for each entry"""

    def at(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> "PlainEntries":
        places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return PlainEntries(self.memory, self.buffer, self.parts.take(places, axis=1))

    def __len__(self) -> int:
        return int(self.parts.shape[1])

    def part(self, part: Part) -> Positions:
        values: Positions = self.parts[part]
        return values

    @property
    def number(self) -> Positions:
        return self.part(Part.NUMBER)

    @property
    def operation(self) -> int:
        """The operation of all of them."""
        return int(self.parts[Part.OPERATION, 0])

    @property
    def o(self) -> Positions:
        return self.part(Part.O)

    @property
    def o_size(self) -> Positions:
        return self.part(Part.O_SIZE)

    @property
    def key(self) -> Positions:
        return self.part(Part.KEY)

    @property
    def key_size(self) -> Positions:
        return self.part(Part.KEY_SIZE)

    @property
    def ts(self) -> npt.NDArray[np.uint64]:
        times: npt.NDArray[np.uint64] = items(self.buffer, "<u8")[self.parts[Part.TIME]]
        return times

    @property
    def wall(self) -> Positions:
        """Milliseconds."""
        milliseconds: Positions = items(self.buffer, "<i8")[self.parts[Part.WALL]]
        return milliseconds

    def document_keys(self) -> list[bytes]:
        memory = self.memory
        starts, ends = self.key, self.key + self.key_size
        return [memory[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def joined_entries(memory: bytes, buffer: Bytes, parts: Sequence[Positions]) -> PlainEntries:
    """Return entries of several forms as one."""
    nothing = np.empty((len(Part), 0), np.int64)
    return PlainEntries(memory, buffer, np.concatenate([nothing, *parts], axis=1))


def envelope_of(buffer: Bytes, found: Found, shards: Positions) -> dict[Part, Positions]:
    """Return where times and session of entries of one form are; ``shards`` has a number for each entry."""
    nowhere = np.full(len(found.rows), NOWHERE)
    lsid = found.places.get("lsid", nowhere)
    return {
        Part.NUMBER: found.rows,
        Part.TIME: found.places.get("ts", nowhere),
        Part.WALL: found.places.get("wall", nowhere),
        Part.LSID: lsid,
        Part.LSID_SIZE: items(buffer, "<i4")[lsid] if "lsid" in found.places else nowhere,
        Part.TRANSACTION_NUMBER: found.places.get("txnNumber", nowhere),
        Part.INDEX: np.zeros(len(found.rows), np.int64),
        Part.SHARD: shards[found.rows],
    }


def changes_of(
    buffer: Bytes, found: Found, envelope: Mapping[Part, Positions]
) -> tuple[Positions, npt.NDArray[np.bool_]]:
    """Return the parts of document changes, and which of some entries of one form are document changes."""
    places = found.places
    count = len(found.rows)
    times, walls = envelope[Part.TIME], envelope[Part.WALL]
    has_times = count > 0 and times[0] != NOWHERE and walls[0] != NOWHERE
    if not found.form.has_head or not has_times:
        return np.empty((len(Part), 0), np.int64), np.zeros(count, np.bool_)
    int32 = items(buffer, "<i4")
    op, head = buffer[places["op"]], places["head"]
    head_size = places["head end"] - head
    o = places["o"]
    o_size = int32[o].astype(np.int64)
    is_delete, is_update, is_insert = op == ord("d"), op == ord("u"), op == ord("i")
    has_diff, has_id = _updates_of(buffer, o, o_size, is_update)
    if "o2" in places:
        key = np.where(is_delete, o, places["o2"])
        is_change = is_delete | is_insert | has_diff | has_id
    else:
        key, is_change = o, is_delete
    wall = items(buffer, "<i8")[walls]
    is_change &= (items(buffer, "<u8")[times] > 0) & (wall >= 0) & (wall <= LAST_DATE)
    is_change &= head_size <= LONGEST_HEAD
    parts = np.empty((len(Part), count), np.int64)
    parts[Part.OPERATION] = np.where(
        is_delete, DELETED, np.where(is_update, np.where(has_diff, UPDATED, REPLACED), INSERTED)
    )
    parts[Part.HEAD], parts[Part.HEAD_SIZE] = head, head_size
    parts[Part.O], parts[Part.O_SIZE] = o, o_size
    parts[Part.KEY], parts[Part.KEY_SIZE] = key, int32[key]
    for part, values in envelope.items():
        parts[part] = values
    return (parts if is_change.all() else parts.compress(is_change, axis=1)), is_change


def _updates_of(
    buffer: Bytes, o: Positions, o_size: Positions, is_update: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which entries are updates with a sound diff, and which are replacements."""
    has_diff, has_id = np.zeros((2, len(o)), np.bool_)
    updates = np.flatnonzero(is_update)
    if len(updates):
        sizes, places = o_size[updates], o[updates]
        found = have_bytes(buffer, places + 4, DELTA_LEAD)
        found[found] = items(buffer, "<i4")[places[found] + DIFF_START] + DIFF_START + 1 == sizes[found]
        has_diff[updates] = found
        others = np.flatnonzero(~found)
        has_id[updates[others]] = _have_sound_id(buffer, places[others], sizes[others])
    return has_diff, has_id


_ID_SIZES: Final = np.full(256, -1)
_ID_SIZES[list(rawbson.FIXED_SIZE)] = list(rawbson.FIXED_SIZE.values())
_ID_SIZES.flags.writeable = False


def _have_sound_id(buffer: Bytes, o: Positions, o_size: Positions) -> npt.NDArray[np.bool_]:
    """Which documents begin with an `_id` that ends inside of them; what has one is a replacement."""
    end = ends_of_ids(buffer, o)
    return np.asarray((buffer[o + o_size - 1] == 0) & (end != NOWHERE) & (end < o + o_size), np.bool_)


def ends_of_ids(buffer: Bytes, documents: Positions) -> Positions:
    """Where the `_id` ends that is the first field of a document; `NOWHERE` if another field is the first.

    That of a damaged document may end after it. Values of rare types have no known end, either.
    """
    found = have_bytes(buffer, documents + 5, b"_id\0")
    kind, value = buffer[documents + 4], documents + 9
    value = np.where(found, value, 0)
    length = items(buffer, "<i4")[value].astype(np.int64)
    size = _ID_SIZES[kind]
    for sized, (smallest, more) in SIZED.items():
        is_sized = kind == sized
        size[is_sized] = np.where(length >= smallest, length + more, -1)[is_sized]
    return np.where(found & (size >= 0), value + size, NOWHERE)


def _tail_text(after: bytes) -> MaskedText:
    fields = [(lead, bytes(TAIL_WIDTH)) for lead in TAIL_LEADS]
    text = b"".join([lead + value for lead, value in fields])
    mask = b"".join([b"\xff" * len(lead) + value for lead, value in fields])
    return MaskedText(text + after, mask + b"\xff" * len(after))


_TAILS: Final = ((_tail_text(PREVIOUS_LEAD), PREVIOUS_SIZE), (_tail_text(b""), 0))


def times_by_tail(buffer: Bytes, starts: Positions, ends: Positions) -> npt.NDArray[np.uint64]:
    """The cluster times of entries that end as plain or as retryable ones do; 0 for others.

    ``buffer`` need not be padded.
    """
    times = np.zeros(len(ends), np.uint64)
    for tail, after in _TAILS:
        rows = np.flatnonzero((times == 0) & (ends - starts > TAIL_SIZE + after))
        if len(rows):
            tails = ends[rows] - TAIL_SIZE - after
            found = tail.found_at(buffer, tails)
            times[rows[found]] = items(buffer, "<u8")[tails[found] + TAIL_OFFSETS[TIME]]
    return times
