"""Apply changes to the files of one range of keys: read their live rows, change some, write the rows again.

In a table with a past, rows that were replaced go to files of their own. In a table with a given schema, so
do rows that do not fit: a change may move a document from one part to the other.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson.id_key import id_document
from tailrace.errors import PipelineError
from tailrace.events.cluster_time import in_words
from tailrace.events.update_diff.apply import apply_diff
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.convert import convert
from tailrace.lake.columns.kinds import DELETE as DELETED
from tailrace.lake.columns.kinds import (
    DOCUMENT,
    INCREMENT,
    KEY,
    TIME,
    DocumentChanges,
    TableKind,
    own_schema,
    replaced_rows,
    rows_of,
)
from tailrace.lake.columns.shape import Mark
from tailrace.lake.mirror.data_files import TARGET_BYTES, MirrorFile, read_file, write_rows
from tailrace.lake.mirror.layout import policy_of
from tailrace.lake.mirror.typed_rows import LETTERS, TypedRows, table_schema
from tailrace.lake.schema import TIME_COLUMNS, times_of
from tailrace.lake.storage.log_store import LogStore

WRITE: Final = "w"
DIFF: Final = "u"
DELETE: Final = "d"
CLEAR: Final = "c"
"""What a change does: it stores a document, applies a diff to the one that is there, or deletes it; the last
one deletes all documents"""


class RowChange(NamedTuple):
    """One change of one document."""

    key: bytes
    kind: str
    payload: bytes
    """The document, or the diff; for a delete the `documentKey`"""
    time: int
    token: str
    visible: int
    """The cluster time from which on readers of the source see it; before `time` for a part of a transaction
    over several shards"""


@dataclass(slots=True)
class AppliedChanges:
    """Documents while changes are applied to them, and what each change did."""

    documents: dict[bytes, bytes | None]
    """The changed keys and their documents; None for one that does not exist"""
    steps: list[tuple[bytes, bytes, Mark, str] | None] = field(default_factory=list)
    """Key, document, mark and operation; None for what a later change has taken back"""
    last: dict[bytes, int] = field(default_factory=dict)
    """The last step of each key"""

    def add(self, key: bytes, document: bytes, mark: Mark, operation: str) -> None:
        self.last[key] = len(self.steps)
        self.steps.append((key, document, mark, operation))
        self.documents[key] = None if operation == DELETED else document

    def write(self, key: bytes, document: bytes, mark: Mark) -> None:
        operation = "insert" if self.documents[key] is None else "replace"
        place = self.last.get(key)
        step = None if place is None else self.steps[place]
        if place is not None and step is not None and step[3] == DELETED and _is_moved(step[2], mark):
            self.steps[place] = None
            operation = "replace"
        self.add(key, document, mark, operation)

    @property
    def changes(self) -> DocumentChanges:
        steps = [step for step in self.steps if step is not None]
        keys, documents, marks, operations = zip(*steps, strict=True) if steps else ((), (), (), ())
        return DocumentChanges(keys, documents, marks, operations)


def _is_moved(deleted: Mark, written: Mark) -> bool:
    """Whether a document was deleted on one shard to be on another one.

    Readers order rows by time and token, and would see the deletion last.
    """
    return deleted[0] == written[0] and written[1] < deleted[1]


def merge_changes(
    stores: Sequence[LogStore],
    files: Sequence[MirrorFile],
    changes: Sequence[RowChange],
    typed: TypedRows,
    *,
    name: str,
    is_settling: bool = False,
    target_bytes: int = TARGET_BYTES,
) -> list[MirrorFile]:
    """Write the rows of some files after some changes, which are in order; return the new files.

    The files have live rows, and are neighbours in the order of keys; those of each part are in the store of
    the part. While a copy ``is_settling``, a document may be gone when the change of an earlier time comes;
    at all other times that is an error.
    """
    live = [_live_rows(store, files, typed, part) for part, store in enumerate(stores)]
    is_clearing = any(change.kind == CLEAR for change in changes)
    keys = list({change.key: None for change in changes if change.kind != CLEAR})
    if is_clearing:
        present = [key for rows in live for key in rows.column(KEY).to_pylist()]
        keys = list({**dict.fromkeys(present), **dict.fromkeys(keys)})
    applied = AppliedChanges(dict.fromkeys(keys))
    since: dict[bytes, int] = {}
    places: list[dict[bytes, int]] = []
    """Where each key is in the rows of each part"""
    for rows in live:
        found = pc.index_in(pa.array(keys, pa.binary()), value_set=rows.column(KEY)).to_pylist()
        there = {key: place for key, place in zip(keys, found, strict=True) if place is not None}
        places.append(there)
        before = rows.take(pa.array(list(there.values()), pa.int64()))
        applied.documents.update(zip(there, before.column(DOCUMENT).to_pylist(), strict=True))
        if is_clearing:
            since.update(zip(there, _times(before), strict=True))
    apply_changes(changes, applied, typed.kind, since, is_settling=is_settling)
    done = applied.changes
    result = rows_of(typed.kind, done)
    written = typed.changed(done, result.own, result.live)
    past = typed.changed(done, result.own, result.past) if typed.kind.has_past else []
    new: list[MirrorFile] = []
    for part, (store, rows) in enumerate(zip(stores, live, strict=True)):
        is_letters = part == LETTERS
        left = _with_rows(_without(rows, places[part].values()), written[part], typed, part)
        new += write_rows(store, left, name=name, target_bytes=target_bytes, is_letters=is_letters)
        if typed.kind.has_past:
            # A row without a change was read after what cleared the table, and will be read again.
            ended = [key for key in places[part] if key in result.first]
            taken = rows.take(pa.array([places[part][key] for key in ended], pa.int64()))
            replaced = replaced_rows(typed.kind, taken, [result.first[key] for key in ended])
            rows_of_past = typed.joined([replaced, past[part]], part)
            new += _write_past(store, rows_of_past, name, target_bytes, is_letters=is_letters)
    return new


def _live_rows(store: LogStore, files: Sequence[MirrorFile], typed: TypedRows, part: int) -> pa.Table:
    schema = typed.schemas[part]
    chosen = [file for file in files if file.is_letters == (part == LETTERS)]
    return typed.joined([read_file(store, file, schema) for file in chosen], part)


def _without(rows: pa.Table, places: Collection[int]) -> pa.Table:
    if not places:
        return rows
    kept = np.ones(rows.num_rows, bool)
    kept[list(places)] = False
    return rows.filter(pa.array(kept))


def _with_rows(left: pa.Table, written: pa.Table, typed: TypedRows, part: int) -> pa.Table:
    """Rows that stay and rows that were written, in the order of keys."""
    if not written.num_rows:
        return typed.joined([left], part)
    written = written.take(pc.sort_indices(written.column(KEY)))
    is_after = (
        not left.num_rows or left.column(KEY)[left.num_rows - 1].as_py() < written.column(KEY)[0].as_py()
    )
    together = typed.joined([left, written], part)
    return together if is_after else together.take(pc.sort_indices(together.column(KEY)))


def _write_past(
    store: LogStore, rows: pa.Table, name: str, target_bytes: int, *, is_letters: bool
) -> list[MirrorFile]:
    ordered = rows.take(pc.sort_indices(rows.column(KEY)))  # of one key, as they came
    return write_rows(
        store,
        ordered,
        name=f"past-{name}",
        target_bytes=target_bytes,
        is_past=True,
        is_letters=is_letters,
    )


def join_past(
    store: LogStore, files: Sequence[MirrorFile], schema: pa.Schema, *, name: str
) -> list[MirrorFile]:
    """Write the rows of many small files of past rows to one, however small, so that there are few."""
    if not files:
        return []
    rows = pa.concat_tables([read_file(store, file, schema) for file in files]).combine_chunks()
    return _write_past(store, rows, name, 1 << 62, is_letters=files[0].is_letters)


def rewrite(
    store: LogStore,
    files: Sequence[MirrorFile],
    layout: Layout,
    kind: TableKind,
    *,
    name: str,
    target_bytes: int,
) -> list[MirrorFile]:
    """Write the rows of some files with other columns, made from their documents again."""
    written: list[MirrorFile] = []
    for file in files:
        rows = read_file(store, file, own_schema(kind))
        converted = convert(rows.column(DOCUMENT), layout, policy_of(kind))
        assert converted.layout == layout, "the columns lack a field that a task has seen"
        columns = [*converted.columns.columns, *rows.columns]
        again = pa.Table.from_arrays(columns, schema=table_schema(layout, kind))
        written += write_rows(
            store, again, name=name, target_bytes=target_bytes, is_past=file.is_past, is_run=file.is_run
        )
    return written


def refit(
    stores: Sequence[LogStore],
    files: Sequence[MirrorFile],
    typed: TypedRows,
    *,
    name: str,
    target_bytes: int,
) -> list[MirrorFile]:
    """Write the rows of some files again, all live or all past, divided by whether they fit other columns."""
    own = own_schema(typed.kind)
    rows = pa.concat_tables([read_file(stores[file.is_letters], file, own) for file in files])
    rows = rows.take(pc.sort_indices(rows.column(KEY))).combine_chunks()
    parts = typed.rows(rows.column(DOCUMENT), rows)
    return [
        file
        for part, (store, fitted) in enumerate(zip(stores, parts, strict=True))
        for file in write_rows(
            store,
            fitted,
            name=name,
            target_bytes=target_bytes,
            is_past=files[0].is_past,
            is_letters=part == LETTERS,
        )
    ]


def _times(rows: pa.Table) -> list[int]:
    own = rows.select([TIME, INCREMENT]).rename_columns(list(TIME_COLUMNS))
    found: list[int] = times_of(own).tolist()
    return found


def apply_changes(
    changes: Sequence[RowChange],
    applied: AppliedChanges,
    kind: TableKind,
    since: dict[bytes, int],
    *,
    is_settling: bool,
) -> None:
    """Apply changes to documents; ``since`` has the times of the rows that a table has, if it is cleared."""
    documents = applied.documents
    for change in changes:
        key, payload = change.key, change.payload
        # A version is valid from the time on at which readers of the source see it.
        mark = change.visible if kind.has_past else change.time, change.token
        if change.kind == CLEAR:
            for each, document in documents.items():
                # What was read after it is of the collection that had the name then.
                if document is not None and since.get(each, 0) < change.time:
                    applied.add(each, id_document(document), mark, DELETED)
        elif change.kind == WRITE:
            applied.write(key, payload, mark)
        elif documents[key] is None:
            if change.kind == DIFF and not is_settling:
                raise PipelineError(
                    f"the table lacks a document that was updated at {in_words(change.time)}; copy the "
                    "collection again with --recopy, and report this as a fault in Tailrace"
                )
        elif change.kind == DELETE:
            applied.add(key, payload, mark, DELETED)
        else:
            applied.add(key, apply_diff(documents[key] or b"", payload), mark, "update")
