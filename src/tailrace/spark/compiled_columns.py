"""Columns of Spark's types, built of fields that the compiled kernel has found.

It reads each event once, and writes text as it goes. Columns of other types are built of the places of their
values, as in `bulk_columns.py`. Without the kernel, that module does everything, with the same result.
"""

from collections.abc import Collection, Mapping
from itertools import repeat
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.bulk.kernel import FoundField, FoundTexts, KernelModule, allocate
from tailrace.lake.bulk.splicing import Positions, too_large
from tailrace.lake.columns.bulk.alike import FieldRun, UnevenError
from tailrace.spark.bulk_columns import ColumnPlan, Source, Values


class FieldRuns(NamedTuple):
    """The values of a field in all rows: their types, 0 for none, and where they begin and end."""

    kinds: npt.NDArray[np.uint8]
    starts: Positions
    ends: Positions


class CompiledColumns:
    """Builds columns of some documents, which are slices of one source."""

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
        kinds, starts, ends = runs = FieldRuns(
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

    def _structs(self, plan: ColumnPlan, found: FieldRuns) -> pa.Array:
        is_there = found.kinds == rawbson.DOCUMENT
        if (found.kinds[~is_there] != 0).any():
            raise UnevenError
        starts = np.where(is_there, found.starts, -1)
        parts = self.columns(starts, found.ends, plan.fields)
        return pa.StructArray.from_arrays(parts, fields=list(plan.kind), mask=pa.array(~is_there))

    def _texts(self, plan: ColumnPlan, texts: FoundTexts, found: FieldRuns) -> pa.Array:
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
