"""Apply changes to the files of one range of keys: read them, change some rows, write the rows again."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.errors import PipelineError
from tailrace.events.cluster_time import in_words
from tailrace.events.update_diff.apply import apply_diff
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.mirror.data_files import TARGET_BYTES, MirrorFile, read_file, write_rows
from tailrace.lake.mirror.layout import DOCUMENT, KEY, OWN_SCHEMA, POLICY
from tailrace.lake.mirror.typed_rows import TypedRows, table_schema
from tailrace.lake.storage.log_store import LogStore

WRITE: Final = "w"
DIFF: Final = "u"
DELETE: Final = "d"
"""What a change does: it stores a document, applies a diff to the one that is there, or deletes it"""


class RowChange(NamedTuple):
    """One change of one document."""

    key: bytes
    kind: str
    payload: bytes
    """The document, or the diff; empty for a delete"""
    time: int
    token: str
    visible: int
    """The cluster time from which on readers of the source see it; before `time` for a part of a transaction
    over several shards"""


class DocumentRow(NamedTuple):
    """The document of a key, and its last change."""

    document: bytes
    time: int
    token: str | None


def merge_changes(
    store: LogStore,
    files: Sequence[MirrorFile],
    changes: Sequence[RowChange],
    typed: TypedRows,
    *,
    name: str,
    is_settling: bool = False,
    target_bytes: int = TARGET_BYTES,
) -> list[MirrorFile]:
    """Write the rows of some files after some changes, which are in order; return the new files.

    The files are neighbours in the order of keys. While a copy ``is_settling``, a document may be gone when
    the change of an earlier time comes; at all other times that is an error.
    """
    rows = typed.joined([read_file(store, file, typed.schema) for file in files])
    changed, positions = _changed_rows(rows, changes, is_settling=is_settling)
    kept = np.ones(rows.num_rows, bool)
    kept[positions] = False
    left = rows.filter(pa.array(kept)) if positions else rows
    written = sorted((key, row) for key, row in changed.items() if row is not None)
    if written:
        documents, times, tokens = zip(*(row for _, row in written), strict=True)
        together = typed.joined([left, typed.rows(documents, times, tokens)])
        is_after = not left.num_rows or left.column(KEY)[left.num_rows - 1].as_py() < written[0][0]
        left = together if is_after else together.take(pc.sort_indices(together.column(KEY)))
    return write_rows(store, left, name=name, target_bytes=target_bytes)


def rewrite(
    store: LogStore, files: Sequence[MirrorFile], layout: Layout, *, name: str, target_bytes: int
) -> list[MirrorFile]:
    """Write the rows of some files with other columns, made from their documents again."""
    written: list[MirrorFile] = []
    for file in files:
        rows = read_file(store, file, OWN_SCHEMA)
        documents = rows.column(DOCUMENT).to_pylist()
        converted = convert(documents, layout, POLICY)
        assert converted.layout == layout, "the columns lack a field that a task has seen"
        columns = [*converted.columns.columns, *rows.columns]
        again = pa.Table.from_arrays(columns, schema=table_schema(layout))
        written += write_rows(store, again, name=name, target_bytes=target_bytes)
    return written


def _changed_rows(
    rows: pa.Table, changes: Sequence[RowChange], *, is_settling: bool
) -> tuple[dict[bytes, DocumentRow | None], list[int]]:
    """The documents of the changed keys after the changes, and where their rows were."""
    keys = list({change.key: None for change in changes})
    found = pc.index_in(pa.array(keys, pa.binary()), value_set=rows.column(KEY)).to_pylist()
    positions = [position for position in found if position is not None]
    before = iter(rows.column(DOCUMENT).take(pa.array(positions, pa.int64())).to_pylist())
    current: dict[bytes, DocumentRow | None] = {
        key: None if position is None else DocumentRow(next(before), 0, None)
        for key, position in zip(keys, found, strict=True)
    }
    for key, kind, payload, time, token, _ in changes:
        if kind == WRITE:
            current[key] = DocumentRow(payload, time, token)
        elif kind == DELETE:
            current[key] = None
        else:
            row = current[key]
            if row is not None:
                current[key] = DocumentRow(apply_diff(row.document, payload), time, token)
            elif not is_settling:
                raise PipelineError(
                    f"the table lacks a document that was updated at {in_words(time)}; copy the collection "
                    "again with --recopy, and report this as a fault in Tailrace"
                )
    return current, positions
