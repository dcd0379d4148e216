"""`$bucketAuto`: divide documents into buckets of about equal size, by the value of an expression.

Boundaries are between different values, so that equal values share a bucket; the ``_id`` has both boundaries.
With a granularity they are numbers of a series (`granularity`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.memory.held_rows import HeldRows
from tailrace.mongod.language.aggregation.memory.sorter import Sorter
from tailrace.mongod.language.aggregation.memory.valued_rows import valued_rows
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.bucket import check_group_by, output_accumulators
from tailrace.mongod.language.aggregation.stages.granularity import Granularity, granularity
from tailrace.mongod.language.aggregation.stages.group import Accumulators, accumulated, start_states
from tailrace.mongod.language.aggregation.stages.sort import refused
from tailrace.query.expressions.numbers.number_types import int32_value, to_double
from tailrace.query.expressions.operands import is_number, type_name
from tailrace.query.missing import MISSING

_OPTIONS = ("groupBy", "buckets", "output", "granularity")


def compile_bucket_auto(name: str, spec: Any, scope: StageScope) -> Stage:
    if not isinstance(spec, Mapping):
        raise CommandError(
            40240, f"The argument to {name} must be an object, but found type: {type_name(spec)}"
        )
    for option in spec:
        if option not in _OPTIONS:
            raise CommandError(40245, f"Unrecognized option to {name}: {option}")
    if "groupBy" not in spec or "buckets" not in spec:
        raise CommandError(40246, f"{name} requires 'groupBy' and 'buckets' to be specified")
    check_group_by(name, spec["groupBy"], 40239)
    group_by = scope.parse(spec["groupBy"])
    count = _checked_count(name, spec["buckets"])
    accumulators = output_accumulators(name, spec.get("output"), scope, 40244)
    series = _checked_granularity(name, spec["granularity"]) if "granularity" in spec else None
    key_of = value_key(scope)
    memory = scope.memory

    def run(rows: Rows) -> Rows:
        limit = memory.limits.sort
        sorter = Sorter(memory, limit, valued_rows(lambda value, _: key_of(value)), lambda: refused(limit))
        rule = _Even() if series is None else _Series(series)
        buckets: _Buckets | None = None
        total = 0
        try:
            for row in rows:
                if row is PAUSE:
                    yield row
                    continue
                value = group_by(scope.environment(row.document))
                value = None if value is MISSING else value
                if series is not None:
                    _check_number(name, value)
                total += 1
                if sorter.add(key_of(value), (value, row)):
                    yield from sorter.spill()
            buckets = _Buckets(rule, _average_size(total, count), count, accumulators, scope)
            for valued in sorter.items():
                if valued is PAUSE:
                    yield valued
                else:
                    yield from buckets.add(key_of(valued[0]), *valued)
            yield from buckets.finish()
        finally:
            sorter.close()
            if buckets is not None:
                buckets.close()

    return run


def _average_size(entries: int, count: int) -> int:
    """The average number of entries, with a half rounded up."""
    return max((2 * entries + count) // (2 * count), 1)


class _Even:
    """Boundaries are values of documents: the first of the bucket, and the first of the next one."""

    def first_lower(self, value: Any) -> Any:
        return value

    def full(self, value: Any) -> None:
        """The bucket has its average size; ``value`` is the last one in it."""

    def includes(self, _value: Any) -> bool:
        """Whether a full bucket has to include a value that differs from its last one."""
        return False

    def boundary(self, last: Any, following: Any) -> Any:
        """The upper boundary, by the last value, and the next one or `MISSING`."""
        return last if following is MISSING else following


class _Series:
    """Boundaries are numbers of a series: each bucket ends at the next number above its last value."""

    def __init__(self, series: Granularity) -> None:
        self._series = series
        self._upper: Any = MISSING

    def first_lower(self, value: Any) -> Any:
        return self._series.round_down(to_double(value)) if to_double(value) else value

    def full(self, value: Any) -> None:
        self._upper = self._above(value)

    def _above(self, value: Any) -> Any:
        return self._series.round_up(to_double(value)) if to_double(value) else value

    def includes(self, value: Any) -> bool:
        return self._upper is not MISSING and bool(to_double(value) < self._upper)

    def boundary(self, last: Any, following: Any) -> Any:
        upper, self._upper = self._upper, MISSING
        if upper is MISSING:
            upper = self._above(last)
        if upper == 0 and following is not MISSING:
            # No number of a series is next to zero: a bucket of zeros extends to the next value.
            return self._series.round_down(to_double(following))
        return upper


class _Buckets:
    """Fills buckets with sorted documents, one after another."""

    def __init__(
        self, rule: _Even | _Series, size: int, count: int, accumulators: Accumulators, scope: StageScope
    ) -> None:
        self._rule = rule
        self._size = size
        self._left = count
        self._accumulators = accumulators
        self._scope = scope
        self._rows = self._new_rows()
        self._lower: Any = MISSING
        self._last: tuple[Any, Any] = (None, None)
        """Key and value of the last document."""

    def _new_rows(self) -> HeldRows:
        return HeldRows(self._scope.memory, self._scope.memory.limits.sort)

    def add(self, key: Any, value: Any, row: Row) -> Iterator[Row]:
        """Add the next document; yields the bucket that ends before it, if one does."""
        if self._lower is MISSING:
            self._lower = self._rule.first_lower(value)
        is_full = self._left > 1 and len(self._rows) >= self._size
        if is_full and key != self._last[0] and not self._rule.includes(value):
            yield self._end(value)
        self._rows.append(row)
        self._last = key, value
        if self._left > 1 and len(self._rows) == self._size:
            self._rule.full(value)

    def finish(self) -> Iterator[Row]:
        """The last bucket."""
        if len(self._rows):
            yield self._end(MISSING)

    def _end(self, following: Any) -> Row:
        upper = self._rule.boundary(self._last[1], following)
        bucket_id = {"min": self._lower, "max": upper}
        states = start_states(self._accumulators, bucket_id, self._scope)
        for document in self._rows:
            env = self._scope.environment(document)
            for accumulator, state in zip(self._accumulators.values(), states, strict=True):
                state.add(accumulator.argument(env))
        self._rows.close()
        self._rows = self._new_rows()
        self._lower = upper
        self._left -= 1
        return Row({"_id": bucket_id, **accumulated(self._accumulators, states)})

    def close(self) -> None:
        self._rows.close()


def _checked_count(name: str, spec: Any) -> int:
    if not is_number(spec):
        raise CommandError(
            40241, f"The {name} 'buckets' field must be a numeric value, but found type: {type_name(spec)}"
        )
    count = int32_value(spec)
    if count is None:
        raise CommandError(
            40242, f"The {name} 'buckets' field must be representable as a 32-bit integer, but found {spec}"
        )
    if count <= 0:
        raise CommandError(40243, f"The {name} 'buckets' field must be greater than 0, but found: {count}")
    return count


def _checked_granularity(name: str, spec: Any) -> Granularity:
    if not is_string(spec):
        raise CommandError(
            40261, f"The {name} 'granularity' field must be a string, but found type: {type_name(spec)}"
        )
    return granularity(spec)


def _check_number(name: str, value: Any) -> None:
    if not is_number(value):
        raise CommandError(
            40258,
            f"{name} can specify a 'granularity' with numeric boundaries only, but found a value with type: "
            f"{type_name(value)}",
        )
    number = to_double(value)
    if number != number:
        raise CommandError(40259, f"{name} can specify a 'granularity' with numbers only, but found NaN")
    if number < 0:
        raise CommandError(
            40260, f"{name} can specify a 'granularity' with non-negative numbers only, but found {value}"
        )
