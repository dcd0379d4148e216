"""`$densify`: add documents in the gaps of a field's values, at equal steps of a number or a date.

The bounds are those of all documents (``full``), of each partition (``partition``), or an array, whose upper
bound is excluded. Steps are counted from the lower bound. Documents whose field is null or missing, and those
outside the bounds, are passed on unchanged.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from bson import DatetimeMS

from tailrace.bson.compare import sort_key
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.aggregation.memory.budget import size_of
from tailrace.mongod.language.aggregation.memory.held_rows import HeldRows
from tailrace.mongod.language.aggregation.nested_fields import get_nested, set_nested
from tailrace.mongod.language.aggregation.rows import Document, Row, Rows, paced
from tailrace.mongod.language.aggregation.scope import StageScope
from tailrace.mongod.language.aggregation.specification import (
    checked_array,
    checked_fields,
    checked_object,
    checked_text,
    wrong_type,
)
from tailrace.mongod.language.aggregation.stage import Stage
from tailrace.mongod.language.aggregation.stages.sort import sorted_rows
from tailrace.pacing import tick
from tailrace.query.expressions.dates.date_arguments import Unit, checked_date, checked_unit
from tailrace.query.expressions.dates.date_arithmetic import shifted
from tailrace.query.expressions.dates.timezones import UTC
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.numbers.arithmetic import add
from tailrace.query.expressions.numbers.number_types import integral_value, kind_of, to_double
from tailrace.query.expressions.operands import is_nullish, is_number
from tailrace.query.missing import MISSING
from tailrace.query.sorting import compile_sort

_MOST_GENERATED: Final = 500_000
_PARTITION_OVERHEAD: Final = 128
_FULL, _PARTITION = "full", "partition"


@dataclass(frozen=True, slots=True)
class _Range:
    """The option ``range``: the step, and the bounds, which are a keyword or two values."""

    step: Any
    bounds: Any
    unit: Unit | None

    def next(self, value: Any) -> Any:
        """The value after one step."""
        if self.unit is None:
            return add([value, self.step])
        return checked_date("$densify", shifted(int(value), self.unit, self.step, UTC), ErrorCode.Overflow)

    def check(self, value: Any) -> None:
        """Refuse a value of the field that has the wrong type."""
        if not is_number(value) and not isinstance(value, DatetimeMS):
            raise CommandError(5733201, "Densify field type must be numeric or a date")
        if is_number(value) != (self.unit is None):
            raise CommandError(
                6053600,
                "a $densify with a unit needs dates in its field, and one without a unit needs numbers",
            )


def compile_densify(name: str, spec: Any, scope: StageScope) -> Stage:
    """Sorts the documents by the field, then adds documents in the gaps."""
    fields = checked_fields(name, spec, required=("field", "range"), optional=("partitionByFields",))
    path = checked_text(f"{name}.field", fields["field"])
    components = split_path(path)
    partition_paths = _checked_partitions(name, fields.get("partitionByFields", []), path)
    span = _parse_range(name, fields["range"], has_partitions=bool(partition_paths))
    order = dict.fromkeys((path,) if span.bounds == _FULL else (*partition_paths, path), 1)
    ordering = compile_sort(order, scope.context.collation)

    def run(rows: Rows) -> Rows:
        documents = yield from sorted_rows(rows, ordering, scope.memory)
        try:
            densifier = _Densifier(span, components, [split_path(item) for item in partition_paths], scope)
            yield from paced(Row(document) for document in densifier.run(documents))
        finally:
            documents.close()

    return run


@dataclass(slots=True)
class _PartitionState:
    """The progress in one partition."""

    key: Document
    next_value: Any
    """The value of the next step"""


@dataclass(slots=True)
class _Densifier:
    span: _Range
    components: tuple[str, ...]
    partition_components: list[tuple[str, ...]]
    scope: StageScope
    generated: int = 0
    size: int = 0
    """What the partitions count in memory"""
    partitions: dict[Any, _PartitionState] = field(default_factory=dict)

    def run(self, documents: HeldRows) -> Iterator[Document]:
        """All documents and the added ones; ``documents`` are sorted by the field."""
        values = [get_nested(document, self.components) for document in documents]
        for value in values:
            if not is_nullish(value):
                self.span.check(value)
        lower, upper = self._bounds([value for value in values if not is_nullish(value)])
        includes_upper = not isinstance(self.span.bounds, list)
        for document, value in zip(documents, values, strict=True):
            if not is_nullish(value):
                yield from self._up_to(self._partition(document, value, lower), value, upper)
            yield document
        if self.span.bounds == _PARTITION:
            return
        if not self.partitions and isinstance(self.span.bounds, list) and not self.partition_components:
            self.partitions[()] = _PartitionState({}, lower)
        for state in self.partitions.values():
            yield from self._rest(state, upper, includes_upper)

    def _bounds(self, values: list[Any]) -> tuple[Any, Any]:
        if isinstance(self.span.bounds, list):
            return self.span.bounds[0], self.span.bounds[1]
        # With `partition`, the first and last documents of each partition are the bounds.
        return (values[0], values[-1]) if values and self.span.bounds == _FULL else (None, None)

    def _partition(self, document: Document, value: Any, lower: Any) -> _PartitionState:
        key: Document = {}
        for components in self.partition_components:
            part = get_nested(document, components)
            if part is not MISSING:
                key = set_nested(key, components, part)
        state = self.partitions.get(identity := sort_key(key, self.scope.string_key))
        if state is None:
            self.size += size_of(key) + _PARTITION_OVERHEAD
            limit = self.scope.memory.limits.densify
            if self.size > limit:
                raise CommandError(6007200, f"$densify exceeded memory limit of {limit}")
            state = self.partitions[identity] = _PartitionState(key, value if lower is None else lower)
        return state

    def _up_to(self, state: _PartitionState, value: Any, upper: Any) -> Iterator[Document]:
        """The missing documents below a document's value."""
        reached = sort_key(value)
        end = reached if upper is None else min(reached, sort_key(upper))
        while (key := sort_key(state.next_value)) < end:
            yield self._generate(state)
        if key == reached:
            state.next_value = self.span.next(state.next_value)

    def _rest(self, state: _PartitionState, upper: Any, includes_upper: bool) -> Iterator[Document]:
        end = sort_key(upper)
        while (key := sort_key(state.next_value)) < end or (includes_upper and key == end):
            yield self._generate(state)

    def _generate(self, state: _PartitionState) -> Document:
        tick()
        self.generated += 1
        if self.generated > _MOST_GENERATED:
            raise CommandError(
                5897900,
                f"Generated more than {_MOST_GENERATED} documents in $densify, which is over the limit",
            )
        document = set_nested(state.key, self.components, state.next_value)
        state.next_value = self.span.next(state.next_value)
        return document


def _checked_partitions(name: str, spec: Any, path: str) -> list[str]:
    paths = [
        checked_text(f"{name}.partitionByFields", item)
        for item in checked_array(f"{name}.partitionByFields", spec)
    ]
    for item in paths:
        split_path(item)
        if item == path or item.startswith(f"{path}."):
            raise CommandError(8993000, f"'partitionByFields' of {name} contains the field that is densified")
        if path.startswith(f"{item}."):
            raise CommandError(
                9554500, f"the field that {name} densifies is inside one of 'partitionByFields'"
            )
    return paths


def _parse_range(name: str, spec: Any, *, has_partitions: bool) -> _Range:
    fields = checked_fields(
        f"{name}.range",
        checked_object(f"{name}.range", spec),
        required=("step", "bounds"),
        optional=("unit",),
    )
    step = fields["step"]
    if not is_number(step):
        raise wrong_type(f"{name}.range.step", step, "number")
    if not to_double(step) > 0:
        raise CommandError(
            5733401, "the step parameter in a range statement must be a strictly positive numeric value"
        )
    unit = None
    if "unit" in fields:
        text = checked_text(f"{name}.range.unit", fields["unit"])
        unit = checked_unit(name, text, not_string=ErrorCode.TypeMismatch, unknown=ErrorCode.FailedToParse)
        step = integral_value(step)
        if step is None:
            raise CommandError(6586400, "the step of a range of dates must be a whole number")
    bounds = _checked_bounds(fields["bounds"], unit, has_partitions)
    if isinstance(bounds, list) and unit is None and len({kind_of(item) for item in (*bounds, step)}) > 1:
        raise CommandError(5876900, "Upper bound, lower bound, and step must all have the same type")
    return _Range(step, bounds, unit)


def _checked_bounds(bounds: Any, unit: Unit | None, has_partitions: bool) -> Any:
    if is_string(bounds):
        if bounds not in (_FULL, _PARTITION):
            raise CommandError(5946802, f"bounds must be 'full', 'partition' or an array, found '{bounds}'")
        if bounds == _PARTITION and not has_partitions:
            raise CommandError(
                5733408, "bounds can be 'partition' only where 'partitionByFields' names fields"
            )
        return bounds
    if not isinstance(bounds, list):
        raise CommandError(5733404, "bounds must be 'full', 'partition' or an ascending array of two values")
    if len(bounds) != 2:
        raise CommandError(5733403, "an array of bounds must have exactly two elements")
    lower, upper = bounds
    if sort_key(lower) > sort_key(upper):
        raise CommandError(5733402, "an array of bounds must be ascending, of two numbers or two dates")
    if is_number(lower) and is_number(upper):
        if unit is not None:
            raise CommandError(5733409, "bounds that are numbers may not have a unit")
    elif not (isinstance(lower, DatetimeMS) and isinstance(upper, DatetimeMS)):
        raise CommandError(5733406, "an array of bounds must be of two numbers or of two dates")
    elif unit is None:
        raise CommandError(5733410, "bounds that are dates must have a unit")
    return bounds
