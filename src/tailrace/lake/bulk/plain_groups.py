"""Plain entries in groups that are spliced alike: one operation, one layout of events, one sort of keys.

The collections and the shards of a group may differ. What rows of one collection of a shard share is looked
up once for each, so the number of collections in a slice makes little difference.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tailrace.events.event_token import OBJECT_ID_LEAD, single_id_hex
from tailrace.events.layout.event import NO_SESSION
from tailrace.lake.bulk.columns import PlainRows, SharedParts, stored_layout
from tailrace.lake.bulk.descriptions import BulkDescriptions
from tailrace.lake.bulk.plain_entries import LONGEST_HEAD, OPERATIONS, UPDATED, Part, PlainEntries
from tailrace.lake.bulk.splicing import HEX_LOWER, Piece, Positions, Slices, hexed, items, lines, slices_of
from tailrace.lake.document_keys import key_text

SharedOf: TypeAlias = Callable[[bytes, PlainEntries, int], SharedParts | None]
"""(head, entries, the row of one that has it): what its rows share; None if they need the general path"""

_OBJECT_ID_KEY: Final = 22
_OBJECT_ID_SIZE: Final = 12
_ID_NAME: Final = int.from_bytes(b"_id\0", "little")
_UI_LEAD_SIZE: Final = 8
_MIX: Final = tuple(
    np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93)
)


def plain_groups(entries: PlainEntries, shared_of: SharedOf, session: int = NO_SESSION) -> list[PlainRows]:
    """Return the rows of plain entries; what is in no group needs the general path.

    ``session`` is what their events show of a transaction.
    """
    if not len(entries):
        return []
    firsts, codes, is_alike = distinct_heads(entries)
    buckets: dict[tuple[object, ...], list[tuple[int, SharedParts]]] = {}
    starts = entries.part(Part.HEAD)
    ends = starts + entries.part(Part.HEAD_SIZE)
    operations = entries.part(Part.OPERATION)
    for code, first in enumerate(firsts.tolist()):
        shared = shared_of(entries.memory[int(starts[first]) : int(ends[first])], entries, first)
        layout = None if shared is None else stored_layout(shared.kind, session)
        if shared is not None and layout is not None:
            place = (operations[first], layout.template.holes, shared.kind.token.holes)
            buckets.setdefault(place, []).append((code, shared))
    groups: list[PlainRows] = []
    for members in buckets.values():
        own = np.full(len(firsts), -1)
        own[[code for code, _ in members]] = np.arange(len(members))
        own_codes = own[codes]
        rows = np.flatnonzero((own_codes >= 0) & is_alike)
        if len(rows):
            shared_parts = [shared for _, shared in members]
            groups += _by_key(shared_parts, own_codes[rows], entries.at(rows))
    return groups


def distinct_heads(entries: PlainEntries) -> tuple[Positions, Positions, npt.NDArray[np.bool_]]:
    """Return a row of each head of a shard, the number of each row's, and which rows have the same bytes."""
    buffer = entries.buffer
    operation = entries.part(Part.SHARD) * len(OPERATIONS) + entries.part(Part.OPERATION)
    head, size = entries.part(Part.HEAD), entries.part(Part.HEAD_SIZE)
    end = head + size
    words = items(buffer, "<u8")
    # The UUID, and the end of the name: two collections that have both in common are renamed ones.
    mixed = words[end - 16] * _MIX[0]
    mixed ^= words[end - 8] * _MIX[1]
    mixed ^= words[end - 17 - _UI_LEAD_SIZE - 8] * _MIX[2]
    mixed ^= (operation * (LONGEST_HEAD + 1) + size).astype(np.uint64) * _MIX[3]
    _, firsts, codes = np.unique(mixed, return_index=True, return_inverse=True)
    is_alike = np.zeros(len(entries), np.bool_)
    first_heads = head[firsts][codes]
    same_size = size == size[firsts][codes]
    for width in np.unique(size).tolist():
        rows = np.flatnonzero((size == width) & same_size)
        heads = items(buffer, f"V{width}")
        is_alike[rows] = heads[head[rows]] == heads[first_heads[rows]]
    is_alike &= operation == operation[firsts][codes]
    return firsts, codes, is_alike


def _by_key(shared: Sequence[SharedParts], codes: Positions, entries: PlainEntries) -> list[PlainRows]:
    """Rows by the sort of their keys, without those whose key or diff needs the general path."""
    descriptions: Slices | None = None
    if entries.operation == UPDATED:
        descriptions, is_described = BulkDescriptions(entries).described()
        if not is_described.all():
            good = np.flatnonzero(is_described)
            entries, codes, descriptions = entries.at(good), codes[good], _some(descriptions, good)
    buffer, key = entries.buffer, entries.key
    has_object_id = (
        (entries.key_size == _OBJECT_ID_KEY)
        & (buffer[key + 4] == 7)
        & (items(buffer, "<i4")[key + 5] == _ID_NAME)
    )
    groups = []

    def add(rows: Positions, hexes: Sequence[Piece], texts: Sequence[Piece]) -> None:
        own, own_codes, described = entries, codes, descriptions
        if len(rows) < len(entries):
            own, own_codes = entries.at(rows), codes[rows]
            described = None if descriptions is None else _some(descriptions, rows)
        groups.append(PlainRows(shared, own_codes, own, hexes, texts, described))

    rows = np.flatnonzero(has_object_id)
    if len(rows):
        identifiers = lines(buffer, key[rows] + 9, _OBJECT_ID_SIZE)
        text = (b'{"_id": {"$oid": "', hexed(identifiers, HEX_LOWER), b'"}}')
        add(rows, (OBJECT_ID_LEAD, hexed(identifiers)), text)
    rows = np.flatnonzero(~has_object_id)
    if len(rows):
        keys = entries.at(rows).document_keys()
        written = [(single_id_hex(key), key_text(key)) for key in keys]
        rows = rows[[digits is not None and text is not None for digits, text in written]]
        if len(rows):
            both = [(digits, text) for digits, text in written if digits is not None and text is not None]
            hexes = slices_of([digits for digits, _ in both])
            add(rows, (hexes,), (slices_of([text.encode() for _, text in both]),))
    return groups


def _some(slices: Slices, rows: Positions) -> Slices:
    return Slices(slices.buffer, slices.starts[rows], slices.lengths[rows])
