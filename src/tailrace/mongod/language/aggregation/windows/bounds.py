"""Windows: which neighbours of a document count, by position or by the value of the sort field.

A bound is a distance, ``"current"`` for the document itself or ``"unbounded"`` for the partition's end. In a
range, a distance of zero includes the documents with the same value.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from bson import DatetimeMS

from tailrace.bson.compare import sort_key
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.windows.function import WindowCall, failed
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.pacing import ticking
from tailrace.query.expressions.dates.date_arguments import Unit, checked_date, checked_unit
from tailrace.query.expressions.dates.date_arithmetic import shifted
from tailrace.query.expressions.dates.timezones import UTC
from tailrace.query.expressions.numbers.arithmetic import add
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.expressions.operands import is_number, type_name
from tailrace.query.expressions.scope import Constant

UNBOUNDED: Final = "unbounded"
CURRENT: Final = "current"
Bound: TypeAlias = Any
"""`UNBOUNDED`, `CURRENT` or a number"""
Span: TypeAlias = tuple[int, int]
"""The first position, and the one after the last"""


class Bounds(Protocol):
    """The windows of all documents."""

    @property
    def moves(self) -> bool:
        """Whether the window of a later document begins later."""

    def spans(self, partition: Partition) -> Iterable[Span]:
        """The window of each document; an empty one has equal ends."""


@dataclass(frozen=True, slots=True)
class DocumentBounds:
    """Windows by number of documents before and after."""

    lower: int | None = None
    """None for unbounded"""
    upper: int | None = None

    @property
    def moves(self) -> bool:
        return self.lower is not None

    def spans(self, partition: Partition) -> Iterator[Span]:
        count = len(partition)
        for position in ticking(range(count)):
            first = 0 if self.lower is None else min(max(position + self.lower, 0), count)
            end = count if self.upper is None else min(max(position + self.upper + 1, 0), count)
            yield first, max(first, end)


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """Windows by distance of values below and above."""

    lower: Bound
    upper: Bound
    unit: Unit | None = None

    @property
    def moves(self) -> bool:
        return bool(self.lower != UNBOUNDED)

    def spans(self, partition: Partition) -> Iterator[Span]:
        for value in partition.sort_values:
            self._check(value)
        keys = [sort_key(value) for value in ticking(partition.sort_values)]
        for position, value in enumerate(ticking(partition.sort_values)):
            first = self._position(self.lower, position, value, keys, 0, bisect_left)
            end = self._position(self.upper, position, value, keys, len(keys), bisect_right)
            yield first, max(first, end)

    def _position(
        self, bound: Bound, position: int, value: Any, keys: list[Any], far: int, bisect: Any
    ) -> int:
        if bound == UNBOUNDED:
            return far
        if bound == CURRENT:
            return position if bisect is bisect_left else position + 1
        found: int = bisect(keys, sort_key(self._moved(value, bound)))
        return found

    def _check(self, value: Any) -> None:
        if self.unit is not None:
            if not isinstance(value, DatetimeMS):
                raise CommandError(
                    5429513,
                    f"Invalid range: Expected the sortBy field to be a Date, but it was {type_name(value)}",
                )
        elif isinstance(value, DatetimeMS):
            raise CommandError(5429413, "Invalid range: a range of dates needs a unit")
        elif not is_number(value):
            raise CommandError(
                5429414,
                f"Invalid range: Expected the sortBy field to be a number, but it was {type_name(value)}",
            )

    def _moved(self, value: Any, distance: Any) -> Any:
        if self.unit is None:
            return add([value, distance])
        return checked_date("a window", shifted(int(value), self.unit, distance, UTC), ErrorCode.Overflow)


WHOLE_PARTITION: Final = DocumentBounds()


def parse_bounds(call: WindowCall) -> Bounds:
    """The windows of a call; by default the whole partition."""
    window = call.window
    if window is None:
        return WHOLE_PARTITION
    if not isinstance(window, Mapping):
        raise failed(f"'window' field must be an object, not {type_name(window)}")
    for option in window:
        if option not in ("documents", "range", "unit"):
            raise failed(f"'window' field can only have 'documents', 'range' and 'unit', found: {option}")
    if "documents" in window and "range" in window:
        raise failed("Window bounds can specify either 'documents' or 'range', not both")
    if "documents" in window:
        if "unit" in window:
            raise failed("Window bounds can only specify 'unit' with range-based bounds")
        return _parse_document_bounds(call, window["documents"])
    if "range" in window:
        return _parse_range_bounds(call, window)
    if "unit" in window:
        raise failed("Window bounds can only specify 'unit' with range-based bounds")
    return WHOLE_PARTITION


def _parse_document_bounds(call: WindowCall, spec: Any) -> DocumentBounds:
    lower, upper = (_integer_bound(bound) for bound in _pair(spec, call.scope))
    _check_order(lower, upper)
    if call.ordering is None and (lower, upper) != (UNBOUNDED, UNBOUNDED):
        raise CommandError(5339901, "Document-based bounds require a sortBy")
    return DocumentBounds(_offset(lower), _offset(upper))


def _offset(bound: Bound) -> int | None:
    return None if bound == UNBOUNDED else 0 if bound == CURRENT else int(bound)


def _parse_range_bounds(call: WindowCall, window: Mapping[str, Any]) -> RangeBounds:
    unit = None
    if "unit" in window:
        unit = checked_unit(
            call.name,
            window["unit"],
            not_string=ErrorCode.FailedToParse,
            unknown=ErrorCode.FailedToParse,
        )
    pair = _pair(window["range"], call.scope)
    lower, upper = pair if unit is None else (_integer_bound(bound) for bound in pair)
    _check_order(lower, upper)
    if call.ordering is None or len(call.ordering.paths) != 1:
        raise CommandError(5339902, "Range-based bounds require sortBy a single field")
    if call.ordering.is_reversed:
        raise CommandError(8947401, "Range-based bounds require an ascending sortBy")
    return RangeBounds(lower, upper, unit)


def _pair(spec: Any, scope: StageScope) -> tuple[Bound, Bound]:
    if not isinstance(spec, list) or len(spec) != 2:
        raise failed("Window bounds must be a 2-element array")
    lower, upper = (_bound(bound, scope) for bound in spec)
    return lower, upper


def _bound(spec: Any, scope: StageScope) -> Bound:
    """A keyword, or a constant number; keywords are not expressions."""
    if is_string(spec):
        if spec not in (UNBOUNDED, CURRENT):
            raise failed(f"Window bounds must be 'unbounded', 'current', or a number, not '{spec}'")
        return spec
    expression = scope.parse(spec)
    if not isinstance(expression, Constant) or not is_number(expression.value):
        raise failed("Window bounds must be 'unbounded', 'current', or a number")
    return expression.value


def _integer_bound(bound: Bound) -> Bound:
    if is_string(bound):
        return bound
    number = integral_value(bound)
    if number is None:
        raise failed(f"Numeric document-based and time range-based bounds must be an integer, not {bound}")
    return number


def _check_order(lower: Bound, upper: Bound) -> None:
    if UNBOUNDED in (lower, upper):
        return
    first, last = (0 if bound == CURRENT else bound for bound in (lower, upper))
    if sort_key(first) > sort_key(last):
        raise CommandError(5339900, "Lower bound must not exceed upper bound")
