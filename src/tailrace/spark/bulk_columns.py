"""Columns of Spark's types, built of many BSON values at the same time.

A column is given the values of one field, group by group, and writes them where their rows are. What it
cannot take together it converts one by one, with the code of `row_values.py`, which decides what fits. Where
the compiled kernel is installed, it finds the fields and writes text, with the same result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import FIRST_DATE, LAST_DATE, MICROSECONDS
from tailrace.errors import BsonError
from tailrace.lake.bulk.kernel import FoundField, FoundTexts, KernelModule, allocate
from tailrace.lake.bulk.splicing import (
    Bytes,
    Group,
    Piece,
    Positions,
    Slices,
    items,
    slices_of,
    spliced,
    too_large,
)
from tailrace.lake.columns.bulk.alike import FieldRun, UnevenError, groups_of, padded_buffer
from tailrace.lake.columns.bulk.json_texts import timestamp_pieces, write_json
from tailrace.lake.columns.bulk.pieces import written_groups
from tailrace.lake.columns.bulk.variants import write_variants
from tailrace.spark.row_values import Conversions, Converter

_NOTHING: Final = frozenset({rawbson.NULL, rawbson.UNDEFINED})
_INTEGERS: Final = {rawbson.INT32: "<i4", rawbson.INT64: "<i8", rawbson.TIMESTAMP: "<i8", rawbson.DATE: "<i8"}


class Source:
    """The bytes that fields are slices of."""

    def __init__(self, column: pa.Array) -> None:
        """From a binary column."""
        self._column = column

    @cached_property
    def _padded(self) -> tuple[Bytes, Positions]:
        return padded_buffer(self._column)

    @property
    def data(self) -> Bytes:
        """Padded for `items`."""
        return self._padded[0]

    @cached_property
    def offsets(self) -> Positions:
        """Where the values of the column begin and end."""
        column = self._column
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: len(column) + 1]
        return offsets.astype(np.int64) - int(offsets[0])

    @cached_property
    def buffer(self) -> Bytes:
        """The same bytes, neither copied nor padded."""
        column = self._column
        first = int(np.frombuffer(column.buffers()[1], np.int32)[column.offset])
        return np.frombuffer(column.buffers()[2], np.uint8)[first:][: self.offsets[-1]]

    @cached_property
    def raw(self) -> bytes:
        return self.buffer.tobytes()


@dataclass(frozen=True, slots=True)
class Values:
    """The values of one field in some rows."""

    source: Source
    rows: Positions
    field: FieldRun

    def converted(self, convert: Converter) -> list[Any]:
        """Return them one by one."""
        raw, kind = self.source.raw, self.field.kind
        places = zip(self.field.starts.tolist(), self.field.ends.tolist(), strict=True)
        return [convert(raw, kind, start, end) for start, end in places]


class Column(ABC):
    """A column of ``count`` rows; those that no value is added for are null."""

    def __init__(self, count: int, convert: Converter) -> None:
        self.count = count
        self._convert = convert

    def add(self, values: Values) -> None:
        if values.field.kind not in _NOTHING:
            self._add(values)

    @abstractmethod
    def _add(self, values: Values) -> None: ...

    @abstractmethod
    def finish(self) -> pa.Array: ...


class ObjectColumn(Column):
    """Values of any type, one by one."""

    def __init__(self, count: int, convert: Converter, kind: pa.DataType) -> None:
        super().__init__(count, convert)
        self._kind = kind
        self._values: list[Any] = [None] * count

    def _add(self, values: Values) -> None:
        field = values.field
        if field.kind == rawbson.ARRAY and (field.ends - field.starts == len(rawbson.EMPTY)).all():
            found: Sequence[Any] = [[]] * len(values.rows)
        else:
            found = values.converted(self._convert)
        for row, value in zip(values.rows.tolist(), found, strict=True):
            self._values[row] = value

    def finish(self) -> pa.Array:
        return pa.array(self._values, self._kind)


class NumberColumn(Column):
    """Integers and times."""

    def __init__(self, count: int, convert: Converter, data_type: DataType, kind: pa.DataType) -> None:
        super().__init__(count, convert)
        self._kind = kind
        self._is_time = isinstance(data_type, TimestampType)
        self._is_long = isinstance(data_type, LongType)
        self._values = np.zeros(count, np.int64)
        self._is_null = np.ones(count, np.bool_)

    def _add(self, values: Values) -> None:
        found = self._numbers(values)
        self._is_null[values.rows] = False
        if found is None:
            one_by_one = values.converted(self._convert)
            self._is_null[values.rows] = [value is None for value in one_by_one]
            found = np.array([value or 0 for value in one_by_one], np.int64)
        self._values[values.rows] = found

    def _numbers(self, values: Values) -> npt.NDArray[np.int64] | None:
        kind = values.field.kind
        if kind not in _INTEGERS or not (self._is_long or self._is_time or kind == rawbson.INT32):
            return None
        found: npt.NDArray[np.int64] = items(values.source.data, _INTEGERS[kind])[values.field.starts]
        if not self._is_time:
            return found.astype(np.int64)
        if kind != rawbson.DATE or ((found < FIRST_DATE) | (found > LAST_DATE)).any():
            return None
        return found * MICROSECONDS

    def finish(self) -> pa.Array:
        mask = self._is_null if self._is_null.any() else None
        return pa.array(self._values, pa.int64(), mask=mask).cast(self._kind)


class BytesColumn(Column):
    """Text or binary data."""

    def __init__(self, count: int, convert: Converter, kind: pa.DataType) -> None:
        super().__init__(count, convert)
        self._kind = kind
        self._is_text = pa.types.is_string(kind)
        self._groups: list[Group] = []

    def _add(self, values: Values) -> None:
        source, field = values.source, values.field
        if self._is_text and field.kind == rawbson.STRING:
            self._put(values.rows, [Slices(source.data, field.starts + 4, field.ends - field.starts - 5)])
        elif self._is_text and field.kind == rawbson.DOCUMENT:
            found, odd = groups_of(source.data, field.starts, field.ends, in_depth=True)
            written, apart = written_groups(found, lambda group: [write_json(source.data, group)])
            for places, (pieces,) in written:
                self._put(values.rows[places], pieces)
            for rows in (odd, *apart):
                self._add_one_by_one(_chosen(values, rows))
        elif self._is_text and field.kind == rawbson.TIMESTAMP:
            self._put(values.rows, timestamp_pieces(source.data, field.starts))
        elif not self._is_text and field.kind == rawbson.DOCUMENT:
            self._put(values.rows, [Slices(source.data, field.starts, field.ends - field.starts)])
        else:
            self._add_one_by_one(values)

    def _add_one_by_one(self, values: Values) -> None:
        found = values.converted(self._convert)
        there = [place for place, value in enumerate(found) if value is not None]
        encoded = [found[place].encode() if self._is_text else found[place] for place in there]
        self._put(values.rows[there], [slices_of(encoded)])

    def _put(self, rows: Positions, pieces: Sequence[Piece]) -> None:
        if len(rows):
            self._groups.append(Group(rows, pieces))

    def finish(self) -> pa.Array:
        column = spliced(self.count, self._groups, self._kind)
        if self._is_text:
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                raise UnevenError from None  # text that is not UTF-8
        return column


class VariantColumn(Column):
    """Documents as VARIANT."""

    def __init__(self, count: int, convert: Converter, kind: pa.StructType) -> None:
        super().__init__(count, convert)
        self._kind = kind
        self._groups: tuple[list[Group], list[Group]] = [], []

    def _add(self, values: Values) -> None:
        source, field = values.source, values.field
        if field.kind != rawbson.DOCUMENT:
            self._add_one_by_one(values)
            return
        found, odd = groups_of(source.data, field.starts, field.ends, in_depth=True)
        written, apart = written_groups(found, lambda group: write_variants(source.data, group))
        for places, columns in written:
            for groups, pieces in zip(self._groups, columns, strict=True):
                groups.append(Group(values.rows[places], pieces))
        for rows in (odd, *apart):
            self._add_one_by_one(_chosen(values, rows))

    def _add_one_by_one(self, values: Values) -> None:
        if len(values.rows):
            found = values.converted(self._convert)
            for groups, name in zip(self._groups, ("value", "metadata"), strict=True):
                groups.append(Group(values.rows, [slices_of([value[name] for value in found])]))

    def finish(self) -> pa.Array:
        is_null = np.ones(self.count, np.bool_)
        for group in self._groups[0]:
            is_null[group.rows] = False
        # Spark's fields of a VARIANT are not null, also where the VARIANT is.
        empty = Group(np.flatnonzero(is_null), [])
        parts = [spliced(self.count, [*groups, empty], pa.binary()) for groups in self._groups]
        return pa.StructArray.from_arrays(parts, fields=list(self._kind), mask=pa.array(is_null))


class StructColumn(Column):
    """Documents with known fields."""

    def __init__(
        self, count: int, convert: Converter, kind: pa.StructType, fields: dict[bytes, Column]
    ) -> None:
        super().__init__(count, convert)
        self._kind = kind
        self._fields = fields
        self._is_null = np.ones(count, np.bool_)

    def _add(self, values: Values) -> None:
        if values.field.kind != rawbson.DOCUMENT:
            raise UnevenError
        self._is_null[values.rows] = False
        add_fields(values.source, values.rows, values.field.starts, values.field.ends, self._fields.get)

    def finish(self) -> pa.Array:
        parts = [column.finish() for column in self._fields.values()]
        return pa.StructArray.from_arrays(parts, fields=list(self._kind), mask=pa.array(self._is_null))


def add_fields(
    source: Source,
    rows: Positions,
    starts: Positions,
    ends: Positions,
    column_of: Callable[[bytes], Column | None],
) -> None:
    """Add the fields of documents to the columns of their names."""
    groups, odd = groups_of(source.data, starts, ends)
    if len(odd):
        raise UnevenError
    for group in groups:
        if len({field.name for field in group.fields}) < len(group.fields):
            raise UnevenError
        for field in group.fields:
            column = column_of(field.name)
            if column is not None:
                column.add(Values(source, rows[group.rows], field))


def _chosen(values: Values, rows: Positions) -> Values:
    field = values.field
    chosen = FieldRun(field.kind, field.name, field.starts[rows], field.ends[rows])
    return Values(values.source, values.rows[rows], chosen)


class ColumnPlan:
    """How a column of one type is built; compiled once for a task."""

    def __init__(self, data_type: DataType, kind: pa.DataType, path: str, conversions: Conversions) -> None:
        self._data_type = data_type
        self.kind = kind
        self.convert = conversions.compile(data_type, path)
        self.is_text = isinstance(data_type, StringType)
        self.fields: dict[bytes, ColumnPlan] = {}
        """Those of a struct"""
        if isinstance(data_type, StructType):
            self.fields = {
                field.name.encode(): ColumnPlan(
                    field.dataType, kind.field(field.name).type, f"{path}.{field.name}", conversions
                )
                for field in data_type.fields
            }

    def column(self, count: int) -> Column:
        """Return an empty one."""
        data_type, kind, convert = self._data_type, self.kind, self.convert
        if isinstance(data_type, VariantType):
            return VariantColumn(count, convert, kind)
        if isinstance(data_type, StringType | BinaryType):
            return BytesColumn(count, convert, kind)
        if isinstance(data_type, LongType | IntegerType | TimestampType):
            return NumberColumn(count, convert, data_type, kind)
        if isinstance(data_type, StructType):
            fields = {name: plan.column(count) for name, plan in self.fields.items()}
            return StructColumn(count, convert, kind, fields)
        return ObjectColumn(count, convert, kind)


class _FieldRuns(NamedTuple):
    """The values of a field in all rows: their types, 0 for none, and where they begin and end."""

    kinds: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions


class CompiledColumns:
    """Builds columns of the fields that the compiled kernel finds in documents of one source.

    The kernel writes text as it goes; columns of other types are built of the places of their values.
    """

    def __init__(self, kernel: KernelModule, source: Source) -> None:
        self._kernel = kernel
        self._source = source

    def columns(
        self,
        starts: Positions,
        ends: Positions,
        plans: Mapping[bytes, ColumnPlan],
        ignored: Collection[bytes] | None = None,
    ) -> list[pa.Array]:
        """The columns of some fields, in order; a row that begins before 0 has no document.

        Raises `UnevenError` if documents have to be read one by one; also for a field that is neither named
        nor ``ignored``, unless that is None.
        """
        names = [(name, plan.is_text) for name, plan in plans.items()]
        leave = None if ignored is None else list(ignored)
        try:
            found = self._kernel.fields(self._source.buffer, starts, ends, names, leave, allocate)
        except OverflowError:
            raise too_large("more bytes") from None
        if found is None:
            raise UnevenError
        return [self._column(*each) for each in zip(plans.items(), found, strict=True)]

    def _column(self, named: tuple[bytes, ColumnPlan], found: FoundField) -> pa.Array:
        name, plan = named
        kinds, starts, ends = runs = _FieldRuns(
            np.frombuffer(found[0], np.uint8),
            np.frombuffer(found[1], np.int64),
            np.frombuffer(found[2], np.int64),
        )
        if found[3] is not None:
            return self._texts(plan, found[3], runs)
        if plan.fields:
            return self._structs(plan, runs)
        column = plan.column(len(kinds))
        for kind in np.unique(kinds).tolist():
            if kind:
                rows = np.flatnonzero(kinds == kind)
                column.add(Values(self._source, rows, FieldRun(kind, name, starts[rows], ends[rows])))
        return column.finish()

    def _structs(self, plan: ColumnPlan, found: _FieldRuns) -> pa.Array:
        is_there = found.kinds == rawbson.DOCUMENT
        if (found.kinds[~is_there] != 0).any():
            raise UnevenError
        starts = np.where(is_there, found.starts, -1)
        parts = self.columns(starts, found.ends, plan.fields)
        return pa.StructArray.from_arrays(parts, fields=list(plan.kind), mask=pa.array(~is_there))

    def _texts(self, plan: ColumnPlan, texts: FoundTexts, found: _FieldRuns) -> pa.Array:
        offsets, data, left = texts
        is_there = found.kinds != 0
        valid = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
        count = len(is_there)
        column = pa.Array.from_buffers(plan.kind, count, [valid, pa.py_buffer(offsets), data])
        rows = np.frombuffer(left, np.int64)
        if not len(rows):
            return column
        places = (found.kinds[rows].tolist(), found.starts[rows].tolist(), found.ends[rows].tolist())
        try:
            shown = list(map(plan.convert, repeat(self._source.raw), *places))
        except BsonError:
            raise UnevenError from None  # which row it is
        is_left = np.zeros(count, np.bool_)
        is_left[rows] = True
        return pc.replace_with_mask(column, pa.array(is_left), pa.array(shown, plan.kind))
