"""Compute the ranges of KeyStrings that match the conditions on one field.

Comparisons in filters stay within the bracket of a type: ``{$gt: 5}`` matches only numbers. So every
condition that an index can serve is one range, or a few points, between bytes of the field's KeyString. An
upper end includes everything that begins with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from bson import Binary, Code, DatetimeMS, Decimal128, ObjectId, Timestamp

from tailrace.bson.documents import encode_value
from tailrace.bson.keystring import TypeBits, append_value, layout
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import Symbol
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.collation_keys import collated
from tailrace.mongod.store.tables import after_prefix
from tailrace.pacing import spend, ticking
from tailrace.query.collation import Collation
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.match.conditions import Condition, conditions_of
from tailrace.query.wide_dict import Table, entries, table
from tailrace.unused import freed_in_pieces

"""A comparison operator and its operand."""

_COMPARISONS: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte", "$in"})
_PREFERRED: Final = ("$eq", "$in", "$lte", "$lt", "$gt", "$gte")
_NUMBER: Final = (layout.NAN, layout.LARGE)
_BRACKETS: Final[dict[type, tuple[int, int]]] = {
    bool: (layout.FALSE, layout.TRUE),
    int: _NUMBER,
    float: _NUMBER,
    Decimal128: _NUMBER,
    str: (layout.STRING, layout.STRING),
    Symbol: (layout.STRING, layout.STRING),
    bytes: (layout.BINARY, layout.BINARY),
    Binary: (layout.BINARY, layout.BINARY),
    ObjectId: (layout.OBJECT_ID, layout.OBJECT_ID),
    DatetimeMS: (layout.DATE, layout.DATE),
    Timestamp: (layout.TIMESTAMP, layout.TIMESTAMP),
}
"""First and last type byte of the bracket, for the types that ranges are served for"""
_COLLATED: Final = (str, Symbol, Mapping)


class _BracketEnd(str):
    """The least or greatest value of a type, for explain."""

    __slots__ = ()


class Interval(NamedTuple):
    """One range; the values at its ends may be excluded, the bytes are always included."""

    lower: bytes
    upper: bytes
    least: Any
    """The values at its ends, for explain."""
    greatest: Any
    has_lower: bool = True
    has_upper: bool = True

    @property
    def text(self) -> str:
        start, end = "[" if self.has_lower else "(", "]" if self.has_upper else ")"
        return f"{start}{_shown(self.least)}, {_shown(self.greatest)}{end}"

    @property
    def is_point(self) -> bool:
        """Whether it contains one value."""
        return self.lower == self.upper and bool(self.lower)

    def descending(self) -> "Interval":
        """The same range for a field in descending order, whose bytes are complemented."""
        return Interval(
            complement(self.upper),
            complement(self.lower),
            self.least,
            self.greatest,
            self.has_upper,
            self.has_lower,
        )


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, _BracketEnd) else shell(value)


EVERYTHING: Final = Interval(b"", b"", _BracketEnd("MinKey"), _BracketEnd("MaxKey"))
_EVERY_END: Final = (_BracketEnd("MinKey"), _BracketEnd("MaxKey"))
_BRACKET_ENDS: Final = {
    layout.NAN: (_BracketEnd("-inf.0"), _BracketEnd("inf.0")),
    layout.STRING: (_BracketEnd('""'), _BracketEnd("{}")),
    layout.FALSE: (_BracketEnd("false"), _BracketEnd("true")),
    layout.DATE: (
        _BracketEnd("new Date(-9223372036854775808)"),
        _BracketEnd("new Date(9223372036854775807)"),
    ),
    layout.TIMESTAMP: (
        _BracketEnd("Timestamp(0, 0)"),
        _BracketEnd("Timestamp(4294967295, 4294967295)"),
    ),
}


def complement(key: bytes) -> bytes:
    """Bytes that sort in the opposite order.

    >>> complement(bytes([0, 255])).hex()
    'ff00'
    """
    return (int.from_bytes(key, "big") ^ ((1 << 8 * len(key)) - 1)).to_bytes(len(key), "big")


@dataclass(frozen=True, slots=True)
class FieldIntervals:
    """The ranges for the conditions on one field."""

    intervals: tuple[Interval, ...]
    """Sorted, without overlap; empty if nothing can match."""
    covered: int
    """Number of conditions that the ranges decide completely, if the field has no array."""
    finds_missing: bool = False
    """Whether they contain documents without the field."""
    conditions: tuple[Condition, ...] = ()
    """The conditions that they were made from."""

    @property
    def are_points(self) -> bool:
        """Whether each contains one value."""
        return all(interval.is_point for interval in self.intervals)


@dataclass(frozen=True, slots=True)
class KeySpace:
    """How an index stores the values of a field."""

    collation: Collation | None = None
    """The collation of the index."""
    has_strings: bool = True
    """Whether the index compares strings as the query does."""

    def holds(self, value: Any) -> bool:
        """Whether a value can be looked up."""
        return self.has_strings or not isinstance(value, _COLLATED)

    def key_of(self, value: Any) -> bytes:
        """The KeyString of one value, without an end byte."""
        kind, raw = encode_value(value)
        if self.collation is not None:
            kind, raw = collated(self.collation, raw, kind, 0, len(raw))
        out = bytearray()
        append_value(out, TypeBits(), raw, kind, 0, len(raw))
        return bytes(out)


def key_space(index: Index, collation: Collation | None) -> KeySpace:
    """How an index stores values, for a query with a collation."""
    return KeySpace(index.collation, has_strings=index.collation == collation)


def id_keys(collection: Collection, collation: Collation | None) -> KeySpace:
    """How a collection finds records by `_id`, for a query with a collation."""
    return KeySpace(collection.collation, has_strings=collection.collation == collation)


def comparisons_of(query: Mapping[str, Any]) -> dict[str, list[Condition]]:
    """The comparisons that all matching documents satisfy, by path, without those no index can serve."""
    return {
        path: [condition for condition in conditions if condition[0] in _COMPARISONS]
        for path, conditions in conditions_of(query).items()
    }


def field_intervals(
    conditions: Sequence[Condition], keys: KeySpace, *, may_have_arrays: bool
) -> FieldIntervals | None:
    """The ranges for the conditions on one field; None if an index can serve none of them.

    If the field may have arrays, different elements may satisfy the conditions, so only one of them is used.
    """
    served = []
    for condition in conditions:
        intervals = _condition_intervals(condition, keys)
        if intervals is not None:
            served.append((condition, intervals))
    if not served:
        return None
    if may_have_arrays:
        # Points contain less than ranges; of ranges, an upper end is preferred, as by a mongod.
        condition, intervals = min(served, key=lambda item: (_PREFERRED.index(item[0][0]), len(item[1])))
        return FieldIntervals(intervals, 1, _finds_null(condition), (condition,))
    common = served[0][1]
    for _, intervals in served[1:]:
        common = _intersection(common, intervals)
    conditions = tuple(condition for condition, _ in served)
    return FieldIntervals(common, len(served), all(map(_finds_null, conditions)), conditions)


def _finds_null(condition: Condition) -> bool:
    operator, value = condition
    return None in value if operator == "$in" else value is None


def _condition_intervals(condition: Condition, keys: KeySpace) -> tuple[Interval, ...] | None:
    operator, value = condition
    if operator == "$in":
        if not isinstance(value, list):
            return None
        found: list[Interval] = freed_in_pieces([], len(value))
        for item in ticking(value):
            point = _point(item, keys)
            if point is None:
                return None
            found.append(point)
        return _ordered(found)
    if operator == "$eq":
        point = _point(value, keys)
        return None if point is None else (point,)
    bracket = _bracket(value)
    if bracket is None or not keys.holds(value):
        return None
    return (_range(operator, value, bracket, keys),)


def has_point(value: Any, keys: KeySpace) -> bool:
    """Whether values equal to this one are at one position in an index, so that they can be looked up."""
    if not keys.holds(value):
        return False
    return value is None or _bracket(value) is not None or isinstance(value, Mapping)


def _point(value: Any, keys: KeySpace) -> Interval | None:
    if not has_point(value, keys):
        return None
    if value is None:
        # An index stores documents without the field under null, and empty arrays under undefined.
        return Interval(bytes([layout.UNDEFINED]), bytes([layout.NULL]), None, None)
    key = keys.key_of(value)
    return Interval(key, key, value, value)


def _range(operator: str, value: Any, bracket: tuple[int, int], keys: KeySpace) -> Interval:
    key = keys.key_of(value)
    least, greatest = _BRACKET_ENDS.get(bracket[0], _EVERY_END)
    if operator in ("$gt", "$gte"):
        return Interval(key, bytes([bracket[1]]), value, greatest, has_lower=operator == "$gte")
    return Interval(bytes([bracket[0]]), key, least, value, has_upper=operator == "$lte")


def _bracket(value: Any) -> tuple[int, int] | None:
    if isinstance(value, Code):
        return None  # a subclass of str, but not a BSON string
    return next((_BRACKETS[kind] for kind in type(value).__mro__ if kind in _BRACKETS), None)


def _ordered(intervals: Sequence[Interval]) -> tuple[Interval, ...]:
    by_lower: Table[bytes, Interval] = table(len(intervals))
    for interval in ticking(intervals):
        by_lower[interval.lower] = interval
    return tuple(in_order(entries(by_lower)))


def _intersection(some: Sequence[Interval], others: Sequence[Interval]) -> tuple[Interval, ...]:
    found = []
    first = second = 0
    while first < len(some) and second < len(others):
        spend(1)
        one, other = some[first], others[second]
        common = _common(one, other)
        if common is not None:
            found.append(common)
        # What ends first has nothing in common with what follows.
        if after_prefix(one.upper) <= after_prefix(other.upper):
            first += 1
        else:
            second += 1
    return tuple(found)


def _common(a: Interval, b: Interval) -> Interval | None:
    low = max(a, b, key=lambda interval: (interval.lower, not interval.has_lower))
    high = min(a, b, key=lambda interval: (after_prefix(interval.upper), interval.has_upper))
    if low.lower >= after_prefix(high.upper):
        return None
    return Interval(low.lower, high.upper, low.least, high.greatest, low.has_lower, high.has_upper)
