"""Apply changes without writing files again: find the changed rows, and write what is new to a run.

Of the files only the keys are read, and the documents that a diff is applied to, in the row groups that have
them. The rows that were found are dead from then on; the driver stores them as deletion vectors.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.errors import PipelineError
from tailrace.lake.columns.kinds import DOCUMENT, KEY, rows_of
from tailrace.lake.mirror.data_files import MirrorFile, widened, write_rows
from tailrace.lake.mirror.deletion_vectors import DeletionVector, read_vectors, write_vectors
from tailrace.lake.mirror.grouping import SMALL_BYTES
from tailrace.lake.mirror.merge import DIFF, AppliedChanges, RowChange, apply_changes
from tailrace.lake.mirror.roaring import Rows
from tailrace.lake.mirror.runs import Compaction
from tailrace.lake.mirror.typed_rows import TypedRows
from tailrace.lake.storage.log_store import LogStore

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WrittenFiles:
    """New files, and the rows of others that do not count any more since, by path."""

    files: list[MirrorFile]
    dead: dict[str, Rows]


def mark_changes(
    store: LogStore,
    files: Sequence[MirrorFile],
    changes: Sequence[RowChange],
    typed: TypedRows,
    *,
    name: str,
    after: bytes,
    target_bytes: int,
    is_settling: bool = False,
) -> WrittenFiles:
    """Apply changes, which are in order, to the rows of some files, which have all the changed keys.

    Rows after the key ``after``, the last one of the table, are a base file unless they are few.
    """
    first: dict[bytes, str] = {}
    for change in changes:
        first.setdefault(change.key, change.kind)
    keys = sorted(first)
    # The document is only needed if it is changed; of the others it is enough that they are there.
    is_read = np.array([first[key] == DIFF for key in keys], np.bool_)
    alive = _alive_rows(store, files, {})
    applied = AppliedChanges(dict.fromkeys(keys))
    where: dict[bytes, tuple[str, int]] = {}
    for file in files:
        for place, row, document in _found(store, file, alive[file.path], keys, is_read):
            key = keys[place]
            if key in where:
                raise PipelineError(
                    f"the table in {store.place} has two rows of one document; copy the collection again "
                    "with --recopy, and report this as a fault in Tailrace"
                )
            where[key] = file.path, row
            applied.documents[key] = document
    apply_changes(changes, applied, typed.kind, {}, is_settling=is_settling)
    done = applied.changes
    result = rows_of(typed.kind, done)
    (rows,) = typed.changed(done, result.own, result.live)
    dead: dict[str, list[int]] = {}
    for key in result.first:
        if key in where:
            path, row = where[key]
            dead.setdefault(path, []).append(row)
    return WrittenFiles(
        _write_sorted(store, rows, name, after, target_bytes),
        {path: np.array(sorted(found), np.int64) for path, found in dead.items()},
    )


def _write_sorted(
    store: LogStore, rows: pa.Table, name: str, after: bytes, target_bytes: int
) -> list[MirrorFile]:
    rows = rows.take(pc.sort_indices(rows.column(KEY)))
    cut = bisect_right(rows.column(KEY).to_pylist(), after)
    run = write_rows(store, rows.slice(0, cut), name=name, target_bytes=target_bytes, is_run=True)
    further = write_rows(store, rows.slice(cut), name=name, target_bytes=target_bytes)
    return [*run, *(replace(file, is_run=file.size < SMALL_BYTES) for file in further)]


# -- looking into files ------------------------------------------------------------------------------------


def _alive_rows(
    store: LogStore, files: Sequence[MirrorFile], dead: Mapping[str, Rows]
) -> dict[str, Mask | None]:
    """Which rows of each file are not dead; None for all. ``dead`` has further ones that are."""
    vectors = read_vectors(store, [file.vector for file in files if file.vector is not None])
    found: dict[str, Mask | None] = {}
    for file in files:
        lost = [] if file.vector is None else [vectors[file.vector]]
        if file.path in dead:
            lost.append(dead[file.path])
        if not lost:
            found[file.path] = None
            continue
        is_alive = np.ones(file.rows, np.bool_)
        for rows in lost:
            is_alive[rows] = False
        found[file.path] = is_alive
    return found


@contextmanager
def _opened(store: LogStore, file: MirrorFile) -> Iterator[pq.ParquetFile]:
    with (
        store.open(file.path, file.size) as source,
        pq.ParquetFile(source, page_checksum_verification=True) as parquet,
    ):
        yield parquet


@dataclass(frozen=True, slots=True)
class _RowGroup:
    number: int
    first: int
    """The number of its first row"""
    rows: int
    least: bytes
    greatest: bytes
    """Its first and its last key"""


def _row_groups(parquet: pq.ParquetFile, file: MirrorFile) -> list[_RowGroup]:
    metadata = parquet.metadata
    names = [metadata.schema.column(column).path for column in range(metadata.num_columns)]
    column = names.index(KEY)
    found: list[_RowGroup] = []
    first = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        statistics = group.column(column).statistics
        # Very long keys are not in the statistics.
        has_keys = statistics is not None and statistics.has_min_max
        least, greatest = (statistics.min, statistics.max) if has_keys else (file.first_key, file.last_key)
        found.append(_RowGroup(number, first, group.num_rows, least, greatest))
        first += group.num_rows
    return found


def _found(
    store: LogStore, file: MirrorFile, is_alive: Mask | None, keys: Sequence[bytes], is_read: Mask
) -> Iterator[tuple[int, int, bytes]]:
    """The rows of a file that have some of the sorted keys: place of the key, row, and document.

    The document is only read where ``is_read`` says so.
    """
    if bisect_left(keys, file.first_key) == bisect_right(keys, file.last_key):
        return
    with _opened(store, file) as parquet:
        for group in _row_groups(parquet, file):
            begin, end = bisect_left(keys, group.least), bisect_right(keys, group.greatest)
            if begin == end:
                continue
            present = parquet.read_row_group(group.number, columns=[KEY]).column(0)
            matches = pc.index_in(present, value_set=pa.array(keys[begin:end], pa.binary()))
            rows = np.flatnonzero(matches.is_valid().to_numpy())
            if is_alive is not None:
                rows = rows[is_alive[group.first + rows]]
            places = begin + matches.take(pa.array(rows)).to_numpy().astype(np.int64)
            documents = dict[int, bytes]()
            wanted = rows[is_read[places]]
            if len(wanted):
                read = parquet.read_row_group(group.number, columns=[DOCUMENT]).column(0)
                documents = dict(zip(wanted.tolist(), read.take(pa.array(wanted)).to_pylist(), strict=True))
            for place, row in zip(places.tolist(), rows.tolist(), strict=True):
                yield place, group.first + row, documents.get(row, b"")


# -- writing files again -----------------------------------------------------------------------------------


def compact(
    store: LogStore,
    compaction: Compaction,
    dead: Mapping[str, Rows],
    typed: TypedRows,
    *,
    name: str,
    target_bytes: int,
) -> WrittenFiles:
    """Write some files again without their dead rows; ``dead`` has those that their vectors do not have yet.

    The files of a compaction are gone then, but for runs that become base files: of these, the rows between
    its limits are dead.
    """
    files = (*compaction.base, *compaction.runs)
    alive = _alive_rows(store, files, dead)
    (schema,) = typed.schemas
    taken: dict[str, Rows] = {}
    pieces: list[pa.Table] = []
    for file in files:
        is_whole = compaction.is_run or not file.is_run
        limits = (b"", None) if is_whole else (compaction.lower, compaction.upper)
        rows, numbers = _between(store, file, alive[file.path], *limits)
        pieces.append(widened(rows, schema))
        if not is_whole:
            taken[file.path] = numbers
    together = typed.joined(pieces)
    if len(pieces) > 1:
        together = together.take(pc.sort_indices(together.column(KEY)))
    return WrittenFiles(
        write_rows(store, together, name=name, target_bytes=target_bytes, is_run=compaction.is_run), taken
    )


def _between(
    store: LogStore, file: MirrorFile, is_alive: Mask | None, lower: bytes, upper: bytes | None
) -> tuple[pa.Table, Rows]:
    """The rows of a file that are not dead, with keys from one on up to another one; and their numbers."""
    with _opened(store, file) as parquet:
        groups = [
            group
            for group in _row_groups(parquet, file)
            if group.greatest >= lower and (upper is None or group.least < upper)
        ]
        read = parquet.read_row_groups([group.number for group in groups])
    ranges = (np.arange(group.first, group.first + group.rows) for group in groups)
    numbers = np.concatenate([np.empty(0, np.int64), *ranges])
    is_chosen = np.ones(len(numbers), np.bool_) if is_alive is None else is_alive[numbers]
    keys = read.column(KEY).combine_chunks()
    if lower:
        is_chosen &= _as_mask(pc.greater_equal(keys, pa.scalar(lower, pa.binary())))
    if upper is not None:
        is_chosen &= _as_mask(pc.less(keys, pa.scalar(upper, pa.binary())))
    return read.filter(pa.array(is_chosen)), numbers[is_chosen]


def _as_mask(values: pa.BooleanArray) -> Mask:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


# -- the table afterwards ----------------------------------------------------------------------------------


def remarked(
    store: LogStore, files: Sequence[MirrorFile], dead: Mapping[str, Rows]
) -> tuple[list[MirrorFile], list[MirrorFile]]:
    """Some files that have more dead rows now: those that are left of them, and all of them as they were.

    ``dead`` has the further dead rows of each.
    """
    changed = [file for file in files if len(dead.get(file.path, ()))]
    before = read_vectors(store, [file.vector for file in changed if file.vector is not None])
    whole: dict[str, Rows] = {}
    for file in changed:
        known = before[file.vector] if file.vector is not None else np.empty(0, np.int64)
        rows = np.union1d(known, dead[file.path])
        if len(rows) < file.rows:
            whole[file.path] = rows
    vectors: Mapping[str, DeletionVector] = write_vectors(store, whole)
    return [replace(file, vector=vectors[file.path]) for file in changed if file.path in vectors], changed
