"""`$bucketAuto`: divide documents into buckets of about equal size, by the value of an expression.

Boundaries are between different values, so that equal values share a bucket; the ``_id`` has both boundaries.
With a granularity they are numbers of a series (`granularity`).
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.accumulators.accumulator import value_key
from tailrace.mongod.language.aggregation.rows import PAUSE, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.bucket import check_group_by, output_accumulators
from tailrace.mongod.language.aggregation.stages.granularity import Granularity, granularity
from tailrace.mongod.language.aggregation.stages.group import Accumulators, accumulated, start_states
from tailrace.query.expressions.numbers.number_types import int32_value, to_double
from tailrace.query.expressions.operands import is_number, type_name
from tailrace.query.missing import MISSING

_OPTIONS = ("groupBy", "buckets", "output", "granularity")


class _Entry(NamedTuple):
    key: Any
    value: Any
    row: Row


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

    def run(rows: Rows) -> Rows:
        entries = []
        for row in rows:
            if row is PAUSE:
                yield row
                continue
            value = group_by(scope.environment(row.document))
            value = None if value is MISSING else value
            if series is not None:
                _check_number(name, value)
            entries.append(_Entry(key_of(value), value, row))
        entries.sort(key=lambda entry: entry.key)
        buckets = _buckets(entries, count) if series is None else _series_buckets(entries, count, series)
        yield from paced(_results(buckets, accumulators, scope))

    return run


class _Bucket(NamedTuple):
    lower: Any
    upper: Any
    entries: list[_Entry]


def _average_size(entries: int, count: int) -> int:
    """The average number of entries, with a half rounded up."""
    return max((2 * entries + count) // (2 * count), 1)


def _buckets(entries: list[_Entry], count: int) -> Iterator[_Bucket]:
    """Divide between different values, after at least the average number of entries."""
    size = _average_size(len(entries), count)
    start = 0
    made = 0
    while start < len(entries):
        made += 1
        end = len(entries) if made == count else min(start + size, len(entries))
        while end < len(entries) and entries[end].key == entries[end - 1].key:
            end += 1
        last = end == len(entries)
        upper = entries[-1].value if last else entries[end].value
        yield _Bucket(entries[start].value, upper, entries[start:end])
        start = end


def _series_buckets(entries: list[_Entry], count: int, series: Granularity) -> Iterator[_Bucket]:
    """Divide at numbers of a series: each bucket ends at the next number above its last value."""
    if not entries:
        return
    size = _average_size(len(entries), count)
    first = entries[0].value
    lower: Any = series.round_down(to_double(first)) if to_double(first) else first
    start = 0
    made = 0
    while start < len(entries):
        made += 1
        end = len(entries) if made == count else min(start + size, len(entries))
        greatest = entries[end - 1].value
        upper = series.round_up(to_double(greatest)) if to_double(greatest) else greatest
        while end < len(entries) and (
            to_double(entries[end].value) < upper or entries[end].key == entries[end - 1].key
        ):
            end += 1
        if upper == 0 and end < len(entries):
            # No number of a series is next to zero: a bucket of zeros extends to the next value.
            upper = series.round_down(to_double(entries[end].value))
        yield _Bucket(lower, upper, entries[start:end])
        lower = upper
        start = end


def _results(buckets: Iterator[_Bucket], accumulators: Accumulators, scope: StageScope) -> Iterator[Row]:
    for bucket in buckets:
        bucket_id = {"min": bucket.lower, "max": bucket.upper}
        states = start_states(accumulators, bucket_id, scope)
        for entry in bucket.entries:
            env = scope.environment(entry.row.document)
            for accumulator, state in zip(accumulators.values(), states, strict=True):
                state.add(accumulator.argument(env))
        yield Row({"_id": bucket_id, **accumulated(accumulators, states)})


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
