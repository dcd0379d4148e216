"""Convert rows of a stream to Arrow batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tailrace.bson import extjson
from tailrace.bson import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import as_signed, seconds_of
from tailrace.events.stages.stage import Row
from tailrace.lake.bulk.kernel import compiled_kernel
from tailrace.lake.bulk.splicing import Positions
from tailrace.lake.columns.bulk.alike import FieldRun, UnevenError
from tailrace.log.shared_output import AnyRow
from tailrace.pipeline.rows.schema import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    OTHER,
    TOKEN,
    FaultMode,
    Output,
    RowLayout,
)
from tailrace.pipeline.streams.event_block import EventBlock
from tailrace.spark.bulk_columns import Column, ColumnPlan, CompiledColumns, Source, Values, add_fields
from tailrace.spark.row_values import Conversions, Converter

_MICROSECONDS: Final = 1_000_000
_CLUSTER_TIME: Final = "clusterTime"
_EVENT: Final = "event"
_INSERT: Final = "insert"
_IMAGES: Final = (b"fullDocument", b"fullDocumentBeforeChange")

_FEW: Final = 64
"""Rows that are not worth the work of a batch"""
_OWN_TYPES: Final = {TOKEN: pa.string(), _CLUSTER_TIME: pa.int64()}

Record = dict[str, Any]
_Add = Callable[[EventBlock, Source, Positions, Mapping[str, Column]], dict[str, pa.Array]]


class RowBatches:
    """Builds batches with the columns of ``schema``; one for each task."""

    def __init__(self, schema: StructType, layout: RowLayout) -> None:
        self._layout = layout
        self._arrow_schema = to_arrow_schema(schema, timezone="UTC")
        self._conversions = Conversions(extended_json=layout.extended_json)
        self._plans = [
            ColumnPlan(field.dataType, kind.type, field.name, self._conversions)
            for field, kind in zip(schema.fields, self._arrow_schema, strict=True)
        ]
        self._names = schema.fieldNames()
        own = {TOKEN, OTHER, layout.corrupt_column}
        if layout.changelog:
            own |= {CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP}
        if layout.output is Output.DOCUMENT:
            own = {layout.corrupt_column}
        if layout.output is Output.EVENT:
            own |= {_CLUSTER_TIME, _EVENT}
        self._fields: dict[bytes, tuple[str, Converter]] = {}
        self._whole: dict[str, Converter] = {}
        for field in schema.fields:
            convert = self._conversions.compile(field.dataType, field.name)
            if field.name in own:
                self._whole[field.name] = convert
            else:
                self._fields[field.name.encode()] = field.name, convert
        # A field whose column is not named is left out; it is not among the fields that have no column.
        self._unnamed = frozenset(name.encode() for name in layout.known) if layout.columns else frozenset()
        # A user's schema that names no field of a document means the document as one column.
        self._is_one_column = layout.output is Output.DOCUMENT and self._names[:1] == ["fullDocument"]
        self._records = {
            Output.COLUMNS: self._changes if layout.changelog else self._events,
            Output.EVENT: self._whole_events,
            Output.DOCUMENT: self._documents,
        }[layout.output]
        self._in_bulk = self._bulk_part()

    def _bulk_part(self) -> _Add | None:
        """What adds many rows to columns; None if rows have to be read one by one."""
        layout = self._layout
        is_own = self._arrow_schema.field
        for name, kind in _OWN_TYPES.items():
            if name in self._whole and name in self._names and is_own(name).type != kind:
                return None
        if layout.changelog or layout.corrupt_column is not None or not self._names:
            return None
        return {Output.COLUMNS: self._add_columns, Output.EVENT: self._add_events}.get(layout.output)

    def batch(self, rows: Sequence[AnyRow] | EventBlock) -> pa.RecordBatch:
        """Return the rows as columns; raises FailedToParse if one does not fit and the mode is FAILFAST."""
        if self._in_bulk is not None and len(rows) >= _FEW:
            try:
                return self._bulk_batch(
                    rows if isinstance(rows, EventBlock) else EventBlock.of(rows), self._in_bulk
                )
            except UnevenError:
                self._conversions.faults.clear()
        return self._batch(rows.rows() if isinstance(rows, EventBlock) else rows)

    # -- all rows at the same time ------------------------------------------------------------------------

    def _bulk_batch(self, block: EventBlock, add: _Add) -> pa.RecordBatch:
        source = Source(block.events)
        kernel = compiled_kernel()
        if kernel is not None and self._layout.output is Output.COLUMNS:
            return self._compiled_batch(block, CompiledColumns(kernel, source), source.offsets)
        columns = {name: plan.column(len(block)) for name, plan in zip(self._names, self._plans, strict=True)}
        shown: dict[str, pa.Array] = add(block, source, source.offsets, columns)
        arrays = [shown[name] if name in shown else column.finish() for name, column in columns.items()]
        if self._conversions.faults:
            raise UnevenError  # which row it is
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _compiled_batch(
        self, block: EventBlock, columns: CompiledColumns, offsets: Positions
    ) -> pa.RecordBatch:
        plans = dict(zip(self._names, self._plans, strict=True))
        wanted = {name: plans[column] for name, (column, _) in self._fields.items()}
        ignored = {b"_id", *self._unnamed} if OTHER in plans else None
        found = columns.columns(offsets[:-1], offsets[1:], wanted, ignored)
        arrays = dict(zip([column for column, _ in self._fields.values()], found, strict=True))
        if self._conversions.faults:
            raise UnevenError  # which row it is
        if TOKEN in plans:
            arrays[TOKEN] = block.tokens
        if OTHER in plans:
            arrays[OTHER] = plans[OTHER].column(len(block)).finish()
        return pa.RecordBatch.from_arrays([arrays[name] for name in self._names], schema=self._arrow_schema)

    def _add_columns(
        self, block: EventBlock, source: Source, offsets: Positions, columns: Mapping[str, Column]
    ) -> dict[str, pa.Array]:
        has_others = OTHER in columns

        def column_of(name: bytes) -> Column | None:
            found = self._fields.get(name)
            if found is not None:
                return columns[found[0]]
            if has_others and name != b"_id" and name not in self._unnamed:
                raise UnevenError
            return None

        if self._fields or has_others:
            rows = np.arange(len(block))
            add_fields(source, rows, offsets[:-1], offsets[1:], column_of)
        return {TOKEN: block.tokens}

    def _add_events(
        self, block: EventBlock, source: Source, offsets: Positions, columns: Mapping[str, Column]
    ) -> dict[str, pa.Array]:
        shown = {TOKEN: block.tokens, _CLUSTER_TIME: pa.array(block.times.view(np.int64))}
        if _EVENT in columns:
            if self._arrow_schema.field(_EVENT).type == pa.binary():
                shown[_EVENT] = block.events
            else:
                field = FieldRun(rawbson.DOCUMENT, b"", offsets[:-1], offsets[1:])
                columns[_EVENT].add(Values(source, np.arange(len(block)), field))
        return shown

    # -- row by row ---------------------------------------------------------------------------------------

    def _batch(self, rows: Sequence[AnyRow]) -> pa.RecordBatch:
        records: list[Record] = []
        faults = self._conversions.faults
        for row in rows:
            for record in self._records(row):
                if faults:
                    if self._layout.mode is FaultMode.FAILFAST:
                        raise _does_not_fit(row, faults)
                    if self._layout.mode is FaultMode.PERMISSIVE:
                        records.append(self._marked(record, row))
                    faults.clear()
                else:
                    records.append(record)
        columns = [
            pa.array([record.get(field.name) for record in records], type=field.type)
            for field in self._arrow_schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow_schema)

    def _marked(self, record: Record, row: AnyRow) -> Record:
        if self._layout.corrupt_column is not None:
            record[self._layout.corrupt_column] = extjson.dumps_canonical(row.raw)
        return record

    # -- one row of the stream, as records ---------------------------------------------------------------

    def _events(self, row: AnyRow) -> Iterator[Record]:
        yield self._event(row.raw, row)

    def _event(self, raw: bytes, row: AnyRow) -> Record:
        """Return the event's fields by column."""
        record: Record = {}
        fields = self._fields
        leftover: list[bytes] | None = [] if OTHER in self._whole else None
        before = 4
        for kind, name, start, end in rawbson.elements(raw):
            found = fields.get(name)
            if found is not None:
                record[found[0]] = found[1](raw, kind, start, end)
            elif leftover is not None and name != b"_id" and name not in self._unnamed:
                leftover.append(raw[before:end])
            before = end
        if TOKEN in self._whole:
            record[TOKEN] = _token(row)
        if leftover:
            rest = rawbson.document(*leftover)
            record[OTHER] = self._whole[OTHER](rest, rawbson.DOCUMENT, 0, len(rest))
        return record

    def _whole_events(self, row: AnyRow) -> Iterator[Record]:
        record: Record = {TOKEN: _token(row), _CLUSTER_TIME: as_signed(row.cluster_time)}
        convert = self._whole.get(_EVENT)
        if convert is not None:
            record[_EVENT] = convert(row.raw, rawbson.DOCUMENT, 0, len(row.raw))
        yield record

    def _documents(self, row: AnyRow) -> Iterator[Record]:
        document = rawbson.subdocument(row.raw, b"fullDocument")
        if document is None:
            return
        if self._is_one_column:
            name, convert = self._fields[b"fullDocument"]
            yield {name: convert(document, rawbson.DOCUMENT, 0, len(document))}
        else:
            yield {
                found[0]: found[1](document, kind, start, end)
                for kind, name, start, end in rawbson.elements(document)
                if (found := self._fields.get(name)) is not None
            }

    def _changes(self, row: AnyRow) -> Iterator[Record]:
        """Return the event as in Spark's changelogs: an update is a row before and a row after it."""
        kind = row.event.operation_type if isinstance(row, Row) else _operation_type(row.raw)
        for change, arrange in _CHANGES.get(kind, _NO_CHANGE):
            raw = row.raw if arrange is None else arrange(row.raw)
            if raw is None:
                continue
            record = self._event(raw, row)
            record[CHANGE_TYPE] = change
            record[COMMIT_VERSION] = as_signed(row.cluster_time)
            record[COMMIT_TIMESTAMP] = seconds_of(row.cluster_time) * _MICROSECONDS
            yield record


def _with_image_before(raw: bytes) -> bytes | None:
    """Return the event with the pre-image as its document; None if there is no pre-image."""
    before = rawbson.subdocument(raw, b"fullDocumentBeforeChange")
    if before is None:
        return None
    body = rawbson.body(rawbson.without(raw, _IMAGES))
    return rawbson.document(body, rawbson.element(rawbson.DOCUMENT, b"fullDocument", before))


def _with_image_before_or_none(raw: bytes) -> bytes | None:
    return _with_image_before(raw) or raw


def _with_image_after(raw: bytes) -> bytes | None:
    return rawbson.without(raw, _IMAGES[1:])


_Arrange = Callable[[bytes], bytes | None]
_UPDATE: Final[tuple[tuple[str | None, _Arrange | None], ...]] = (
    ("update_preimage", _with_image_before),
    ("update_postimage", _with_image_after),
)
_NO_CHANGE: Final[tuple[tuple[str | None, _Arrange | None], ...]] = ((None, None),)
_CHANGES: Final[dict[str, tuple[tuple[str | None, _Arrange | None], ...]]] = {
    _INSERT: ((_INSERT, None),),
    "read": ((_INSERT, None),),
    "update": _UPDATE,
    "replace": _UPDATE,
    "delete": (("delete", _with_image_before_or_none),),
}


def _operation_type(raw: bytes) -> str:
    return rawbson.text(raw, rawbson.find(raw, b"operationType")) or ""


def _token(row: AnyRow) -> str:
    found = rawbson.field(row.token_document, b"_data")
    return "" if found is None else found[1][4:-1].decode()


def _does_not_fit(row: AnyRow, faults: Sequence[str]) -> CommandError:
    return CommandError(
        ErrorCode.FailedToParse,
        f"the event {_token(row)} does not fit the schema: {faults[0]}; change the schema, or set the option "
        "mode to PERMISSIVE or DROPMALFORMED",
    )
