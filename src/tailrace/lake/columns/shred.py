"""Take documents apart: many alike at the same time, the others one by one."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.bulk.splicing import Bytes, Positions
from tailrace.lake.columns.bulk.alike import END, AlikeGroup, FieldRun, UnevenError, groups_of, padded_buffer
from tailrace.lake.columns.one_by_one import shred_document
from tailrace.lake.columns.shredded import (
    TEXTS,
    ShreddedDocuments,
    ShreddedItems,
    ShreddedValues,
    ValueRun,
)

Documents: TypeAlias = Sequence[bytes] | pa.Array | pa.ChunkedArray
_FEW: Final = 32
"""Fewer documents are read sooner one by one"""


def shred(documents: Documents) -> ShreddedDocuments:
    """Take documents apart, each field once; raises `BsonError` if one is damaged.

    Of fields with the same name the last one counts, as in drivers.
    """
    if not isinstance(documents, pa.Array | pa.ChunkedArray):
        documents = pa.array(documents, pa.binary())
    column = documents.combine_chunks() if isinstance(documents, pa.ChunkedArray) else documents
    data, offsets = padded_buffer(column)
    groups: list[AlikeGroup] = []
    others = np.arange(len(column))
    if len(column) >= _FEW:
        with suppress(UnevenError):  # one is damaged: found below
            groups, others = groups_of(data, offsets[:-1], offsets[1:], in_depth=True)
    trees = [(group.rows, _tree(iter([*group.fields, END]))) for group in groups]
    repeated = [rows for rows, tree in trees if _repeats(tree)]
    others = np.sort(np.concatenate([others, *repeated]))
    single = [(int(row), column[int(row)].as_py()) for row in others]
    fields = _shredded(data, trees, single, len(column))
    if any(_is_repeated(fields)):
        single = [(row, without_repeats(raw)) for row, raw in single]
        fields = _shredded(data, trees, single, len(column))
    return fields


@dataclass(slots=True)
class _Node:
    """A field of alike documents, with those inside of it."""

    run: FieldRun
    inside: "list[_Node]" = field(default_factory=list)


def _tree(runs: Iterator[FieldRun]) -> list[_Node]:
    found = []
    for run in runs:
        if run is END:
            break
        is_nested = run.kind in (rawbson.DOCUMENT, rawbson.ARRAY)
        found.append(_Node(run, _tree(runs) if is_nested else []))
    return found


def _repeats(nodes: list[_Node]) -> bool:
    names = {node.run.name for node in nodes}
    return len(names) < len(nodes) or any(_repeats(node.inside) for node in nodes)


def _shredded(
    data: Bytes, trees: list[tuple[Positions, list[_Node]]], single: list[tuple[int, bytes]], count: int
) -> ShreddedDocuments:
    fields = ShreddedDocuments()
    fields.count = count
    for rows, tree in trees:
        if not _repeats(tree):
            _add_fields(data, tree, rows, fields)
    for row, raw in single:
        shred_document(raw, row, fields)
    return fields


def _add_fields(data: Bytes, nodes: list[_Node], rows: Positions, fields: ShreddedDocuments) -> None:
    for node in nodes:
        _add(data, node, rows, fields.values(node.run.kind, node.run.name))


def _add(data: Bytes, node: _Node, rows: Positions, values: ShreddedValues) -> None:
    run = node.run
    is_text = run.kind in TEXTS
    starts, ends = (run.starts + 4, run.ends - 1) if is_text else (run.starts, run.ends)
    values.runs.append(ValueRun(rows, data, starts, ends))
    inner = values.inner
    if inner is None:
        return
    first, count = inner.count, len(rows)
    if isinstance(inner, ShreddedDocuments):
        inner.count += count
        _add_fields(data, node.inside, np.arange(first, first + count), inner)
        return
    size = len(node.inside)
    inner.count += count * size
    inner.sizes += [size] * count
    for place, item in enumerate(node.inside):
        of_item = np.arange(first + place, first + place + count * size, size)
        _add(data, item, of_item, inner.field.values(item.run.kind, inner.level))


def _is_repeated(inner: ShreddedDocuments | ShreddedItems | None) -> Iterator[bool]:
    """Whether a document that was read by itself has two fields with the same name; and the ones inside."""
    if inner is None:
        return
    if isinstance(inner, ShreddedDocuments):
        for shredded_field in inner.by_name.values():
            rows = [row for values in shredded_field.by_kind.values() for row in values.rows]
            yield len(rows) > len(set(rows))
    for values in inner.inside():
        yield from _is_repeated(values.inner)


def without_repeats(raw: bytes, kind: int = rawbson.DOCUMENT) -> bytes:
    """The document with the last one of the fields that have the same name, as drivers read it."""
    own: dict[bytes | int, bytes] = {}
    for place, (inner, name, start, end) in enumerate(rawbson.elements(raw)):
        value = raw[start:end]
        if inner in (rawbson.DOCUMENT, rawbson.ARRAY):
            value = without_repeats(value, inner)
        # The items of an array have places; whatever their names are.
        key: bytes | int = name if kind == rawbson.DOCUMENT else place
        own.pop(key, None)
        own[key] = rawbson.element(inner, name, value)
    return rawbson.document(*own.values())
