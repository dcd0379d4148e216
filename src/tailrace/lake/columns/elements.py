"""Read the elements of many BSON documents in step: the first of each, then the second of each, and so on.

Documents may differ in their fields and types; in each step those with the same type and name are one group.
When few documents have elements left, as with one very long array, these are read one by one.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.bulk.splicing import Bytes, Positions, have_bytes, items
from tailrace.lake.columns.shredded import ValueRun

Found: TypeAlias = dict[bytes, list[ValueRun]]
"""Values by their head, the type and name of an element; of items of arrays by the type alone"""

_FEW: Final = 16
"""Fewer documents are read sooner one by one"""
_MOST_TRIES: Final = 6
"""Heads that are tried one after the other, before documents are sorted by their heads"""
_USUAL_NAME: Final = 64
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)
_FIXED: Final = np.full(256, -1, np.int64)
_MORE: Final = np.full(256, -1, np.int64)
"""Bytes of a value beside those that its length counts"""
_LEAST: Final = np.zeros(256, np.int64)
"""The smallest length"""
for _kind, _size in rawbson.FIXED_SIZE.items():
    _FIXED[_kind] = _size
for _kind, _more, _least in (
    *((kind, 4, 1) for kind in rawbson.LENGTH_PREFIXED),
    *((kind, 0, 5) for kind in (rawbson.DOCUMENT, rawbson.ARRAY, rawbson.CODE_WITH_SCOPE)),
    (rawbson.BINARY, 5, 0),
    (rawbson.DB_POINTER, 16, 1),
):
    _MORE[_kind], _LEAST[_kind] = _more, _least
_TEXTS: Final = np.array([*rawbson.LENGTH_PREFIXED])


class ElementReader:
    """Reads documents and arrays that are slices of one padded buffer."""

    def __init__(self, data: Bytes) -> None:
        self.data = data
        self._raw: bytes | None = None

    @cached_property
    def _nulls(self) -> Positions:
        """Where null bytes are; documents that are alike are read without it."""
        return np.flatnonzero(self.data == 0)

    def read(self, starts: Positions, ends: Positions, *, are_arrays: bool) -> tuple[Found, Positions]:
        """The values of documents or arrays, and how many each has; raises `BsonError` for damage.

        The rows of values are the numbers of their documents.
        """
        found: Found = {}
        counts = np.zeros(len(starts), np.int64)
        sizes = items(self.data, "<i4")[starts]
        _check((sizes == ends - starts) & (sizes >= len(rawbson.EMPTY)))
        _check(self.data[ends - 1] == 0)
        rows, at, stops = np.arange(len(starts)), starts + 4, ends - 1
        step = 0
        while True:
            is_active = at < stops
            if not is_active.all():
                _check(at[~is_active] == stops[~is_active])
                rows, at, stops = rows[is_active], at[is_active], stops[is_active]
            if len(rows) < _FEW:
                break
            values, after, groups = self._step(at, stops, are_arrays=are_arrays)
            for head, places in groups:
                chosen = slice(None) if places is None else places
                of_rows = rows[chosen]
                run = ValueRun(of_rows, values[chosen], after[chosen], np.full(len(of_rows), step))
                found.setdefault(head, []).append(run)
            counts[rows] += 1
            at = after
            step += 1
        for row, position, stop in zip(rows.tolist(), at.tolist(), stops.tolist(), strict=True):
            counts[row] += self._read_one(row, position, stop, step, found, are_arrays=are_arrays)
        return found, counts

    def _step(
        self, at: Positions, stops: Positions, *, are_arrays: bool
    ) -> tuple[Positions, Positions, Iterable[tuple[bytes, Positions | None]]]:
        """Where the values of the next elements begin and end, and those with the same head."""
        first = self._head(int(at[0]))
        if have_bytes(self.data, at, first).all():
            # Documents that are alike so far: most are.
            values = at + len(first)
            size = rawbson.FIXED_SIZE.get(first[0])
            if size is None:
                after = self._ends(np.full(len(at), first[0], np.uint8), values, stops)
            else:
                after = values + size
                _check(after <= stops)
            return values, after, [(first[:1] if are_arrays else first[:-1], None)]
        kinds = self.data[at]
        values = self._next_null(at + 1) + 1
        _check(values <= stops)
        after = self._ends(kinds, values, stops)
        return values, after, self._by_kind(kinds) if are_arrays else self._by_head(at, values)

    def _head(self, position: int) -> bytes:
        """The type and name of one element, with the null byte after the name."""
        size = _USUAL_NAME
        while True:
            found = self.data[position : position + size].tobytes()
            end = found.find(0, 1)
            if end >= 0:
                return found[: end + 1]
            size *= 2  # the buffer ends with null bytes

    def _next_null(self, positions: Positions) -> Positions:
        return self._nulls[np.searchsorted(self._nulls, positions)]

    def _ends(self, kinds: Bytes, starts: Positions, stops: Positions) -> Positions:
        ends = starts + _FIXED[kinds]
        others = np.flatnonzero(ends < starts)
        if len(others):
            kind, start, stop = kinds[others], starts[others], stops[others]
            more = _MORE[kind]
            is_regex = kind == rawbson.REGEX
            _check((more >= 0) | is_regex)
            _check((start + 4 <= stop) | is_regex)
            lengths = items(self.data, "<i4")[start].astype(np.int64)
            _check((lengths >= _LEAST[kind]) | is_regex)
            after = start + lengths + more
            if is_regex.any():
                options = self._next_null(start[is_regex]) + 1
                after[is_regex] = self._next_null(np.minimum(options, stop[is_regex])) + 1
            _check(after <= stop)
            is_text = np.isin(kind, _TEXTS)
            _check(self.data[after[is_text] - 1] == 0)
            ends[others] = after
        _check(ends <= stops)
        return ends

    def _by_kind(self, kinds: Bytes) -> Iterator[tuple[bytes, Positions | None]]:
        if (kinds == kinds[0]).all():
            yield kinds[:1].tobytes(), None
            return
        for kind in np.unique(kinds):
            yield kind.tobytes(), np.flatnonzero(kinds == kind)

    def _by_head(self, at: Positions, values: Positions) -> Iterator[tuple[bytes, Positions | None]]:
        """Elements with the same type and name."""
        left = np.arange(len(at))
        for _ in range(_MOST_TRIES):
            head = self._bytes(at[left[0]], values[left[0]])
            is_same = have_bytes(self.data, at[left], head)
            if is_same.all():
                yield head[:-1], None if len(left) == len(at) else left
                return
            yield head[:-1], left[is_same]
            left = left[~is_same]
        for group in _sorted_groups(self._hashes(at[left], values[left])):
            pending = left[group]
            while len(pending):  # more than once only if two heads have the same hash
                head = self._bytes(at[pending[0]], values[pending[0]])
                is_same = have_bytes(self.data, at[pending], head)
                yield head[:-1], pending[is_same]
                pending = pending[~is_same]

    def _hashes(self, at: Positions, values: Positions) -> Positions:
        lengths = values - at
        words = items(self.data, "<u8")
        found = lengths.astype(np.uint64)
        for offset in range(0, int(lengths.max()), 8):
            rest = lengths - offset
            is_there = rest > 0
            word = words[np.where(is_there, at + offset, at)]
            kept = np.clip(rest, 0, 8).astype(np.uint64) * np.uint64(8)
            mask = np.where(kept == 64, np.uint64(2**64 - 1), (np.uint64(1) << (kept % 64)) - np.uint64(1))
            found = np.where(is_there, (found ^ (word & mask)) * _PRIME, found)
        return found.view(np.int64)

    def _bytes(self, start: np.int64, end: np.int64) -> bytes:
        return self.data[start:end].tobytes()

    def _read_one(
        self, row: int, position: int, stop: int, step: int, found: Found, *, are_arrays: bool
    ) -> int:
        """Read the rest of a document; returns how many values it has."""
        if self._raw is None:
            self._raw = self.data.tobytes()
        raw = self._raw
        lists: dict[bytes, tuple[list[int], list[int], list[int]]] = {}
        count = step
        while position < stop:
            name_end = raw.find(0, position + 1, stop)
            if name_end < 0:
                raise BsonError(f"a field name at byte {position + 1} has no end")
            kind = raw[position]
            head = raw[position : position + 1] if are_arrays else raw[position:name_end]
            start = name_end + 1
            position = rawbson.value_end(raw, kind, start)
            if position > stop:
                raise BsonError(f"a value that starts at byte {start} runs past the end of its document")
            if kind in rawbson.LENGTH_PREFIXED and raw[position - 1]:
                raise BsonError(f"the string at byte {start} has no final NUL")
            noted = lists.get(head)
            if noted is None:
                noted = lists[head] = [], [], []
            noted[0].append(count)
            noted[1].append(start)
            noted[2].append(position)
            count += 1
        for head, (places, starts, ends) in lists.items():
            run = ValueRun(np.full(len(places), row), np.array(starts), np.array(ends), np.array(places))
            found.setdefault(head, []).append(run)
        return count - step


def _sorted_groups(keys: Positions) -> list[Positions]:
    order = np.argsort(keys, kind="stable")
    bounds = np.flatnonzero(np.diff(keys[order])) + 1
    return np.split(order, bounds)


def _check(is_sound: npt.NDArray[np.bool_]) -> None:
    if not is_sound.all():
        raise BsonError("a document is damaged: a length is wrong, or a value runs past its end")
