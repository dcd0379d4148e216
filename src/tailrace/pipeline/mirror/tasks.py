"""What the tasks of a mirror do: copy a range of a collection, merge changes into files.

A task can be pickled, and is called on an executor or in this process. It may run twice: the files of the
attempt that nobody commits are deleted later.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, PipelineError
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.kinds import KEY, TableKind
from tailrace.lake.mirror.bulk_keys import row_keys
from tailrace.lake.mirror.copy_state import CopiedRange
from tailrace.lake.mirror.data_files import MirrorFile, write_rows
from tailrace.lake.mirror.grouping import FileChanges
from tailrace.lake.mirror.merge import merge_changes, refit, rewrite
from tailrace.lake.mirror.typed_rows import LETTERS, FoundColumns, TableColumns, TypedRows
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.sources.deployments.collections import CollectionReader
from tailrace.sources.deployments.document_range import DocumentRange, lacks_snapshots

_GONE: Final = frozenset({
    int(ErrorCode.SnapshotTooOld),
    int(ErrorCode.SnapshotUnavailable),
    int(ErrorCode.NamespaceNotFound),
    int(ErrorCode.QueryPlanKilled),
    51173,  # the index of a collection that was just dropped
})  # fmt: skip
"""Errors after which a later snapshot is tried"""
_ATTEMPTS: Final = 20
_PAUSE_SECONDS: Final = 0.1


class DocumentSource(Protocol):
    """A deployment whose documents can be read."""

    @property
    def collections(self) -> CollectionReader: ...


Task = Callable[[], Any]
RunTasks = Callable[[Sequence[Task]], Iterable[Any]]
"""Runs tasks, at the same time or one by one, and returns what they return, in their order"""


def run_one_by_one(tasks: Sequence[Task]) -> Iterator[Any]:
    """Run tasks in this process."""
    for task in tasks:
        yield task()


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copies a range of a collection to files."""

    source: DocumentSource
    places: Sequence[str]
    options: Mapping[str, str] | None
    namespace: str
    number: int
    lower: bytes | None
    upper: bytes | None
    """Documents with an `_id`; None at the ends"""
    by_index: bool
    uuid: bytes | None
    """The collection's, before `at`; None if there was none"""
    at: int
    """The cluster time to read at"""
    file_bytes: int
    documents_per_second: float | None
    columns: TableColumns

    def __call__(self) -> "BuiltRange":
        reader = self.source.collections
        wanted = DocumentRange(self.namespace, self.lower, self.upper, self.by_index)
        at, uuid = self.at, self.uuid
        for _ in range(_ATTEMPTS):
            try:
                built = self._built(reader, None if uuid is None else wanted, at)
                # A server looks for the collection that has the name now, whatever the time of the snapshot.
                if reader.uuid_of(self.namespace) == uuid:
                    return built
            except CommandError as error:
                if lacks_snapshots(error):
                    return self._built(reader, wanted, None)
                if error.code not in _GONE:
                    raise
            # The snapshot is too old, or the collection was dropped, created or changed after it.
            time.sleep(_PAUSE_SECONDS)
            uuid = reader.uuid_of(self.namespace)
            at = max(at, reader.newest_time())
        raise CommandError(
            ErrorCode.SnapshotUnavailable, f"{self.namespace} could not be read at one cluster time"
        )

    def _built(self, reader: CollectionReader, wanted: DocumentRange | None, at: int | None) -> "BuiltRange":
        """Copy a range; None of a collection that is not there."""
        files: list[MirrorFile] = []
        held: list[list[pa.Table]] = []
        typed = TypedRows(self.columns)
        last = b""
        batches = iter(()) if wanted is None else reader.read(wanted, at)
        for batch in _paced(batches, self.documents_per_second):
            documents = pa.array(batch, pa.binary())
            keys = row_keys(documents)
            if self.by_index:
                last = _check_order(keys, last, self.namespace)
            held.append(typed.copied(keys, documents, self.at if at is None else at))
            if self.by_index and sum(piece.nbytes for parts in held for piece in parts) >= self.file_bytes:
                files += self._written(typed, held)
                held = []
        files += self._written(typed, held)
        # Without a snapshot every document is as it was at some moment since the task was planned.
        settled = max(self.at, reader.newest_time()) if at is None else at
        copied = CopiedRange(self.at if at is None else at, settled)
        return BuiltRange(self.namespace, self.number, copied, BuiltFiles(tuple(files), typed.found))

    def _written(self, typed: TypedRows, held: Sequence[Sequence[pa.Table]]) -> list[MirrorFile]:
        """The files of some rows; those of a range come in order, and fill one file."""
        files: list[MirrorFile] = []
        for part, store in enumerate(open_stores(self.places, self.options)):
            rows = typed.joined([parts[part] for parts in held], part)
            if not self.by_index:
                rows = rows.take(pc.sort_indices(rows.column(KEY)))
            files += write_rows(
                store,
                rows,
                name=f"copy-{self.at:016x}-{self.number:05d}",
                target_bytes=1 << 62 if self.by_index else self.file_bytes,
                is_letters=part == LETTERS,
            )
        return files


@dataclass(frozen=True, slots=True)
class BuiltFiles:
    """Files that a task has written, and the columns that it used."""

    files: tuple[MirrorFile, ...]
    columns: FoundColumns


@dataclass(frozen=True, slots=True)
class BuiltRange:
    """What a copy task reports."""

    namespace: str
    number: int
    copied: CopiedRange
    built: BuiltFiles

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.built.files)


def _check_order(keys: pa.Array, last: bytes, namespace: str) -> bytes:
    """The last key of rows that come in the order of the index; raises `PipelineError` if they do not."""
    if keys[0].as_py() <= last or not pc.all(pc.less(keys[:-1], keys[1:]), min_count=0).as_py():
        raise PipelineError(
            f"{namespace} has two documents with one _id, or another order; a sharded collection whose _id "
            "is not unique cannot be mirrored"
        )
    found: bytes = keys[-1].as_py()
    return found


def open_stores(places: Sequence[str], options: Mapping[str, str] | None) -> list[LogStore]:
    """The stores of the parts of a table."""
    return [open_store(place, options) for place in places]


def _paced(batches: Iterable[list[bytes]], per_second: float | None) -> Iterator[list[bytes]]:
    """Batches, not more documents in a second than allowed."""
    began = time.monotonic()
    count = 0
    for batch in batches:
        yield batch
        if per_second is not None:
            count += len(batch)
            time.sleep(max(began + count / per_second - time.monotonic(), 0.0))


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Applies changes to some files of a table."""

    places: Sequence[str]
    options: Mapping[str, str] | None
    group: FileChanges
    name: str
    is_settling: bool
    file_bytes: int
    columns: TableColumns

    def __call__(self) -> BuiltFiles:
        typed = TypedRows(self.columns)
        files = merge_changes(
            open_stores(self.places, self.options),
            self.group.files,
            self.group.changes,
            typed,
            name=self.name,
            is_settling=self.is_settling,
            target_bytes=self.file_bytes,
        )
        return BuiltFiles(tuple(files), typed.found)


@dataclass(frozen=True, slots=True)
class RefitTask:
    """Writes files again, in the columns of a schema that was changed."""

    places: Sequence[str]
    options: Mapping[str, str] | None
    files: Sequence[MirrorFile]
    columns: TableColumns
    file_bytes: int

    def __call__(self) -> list[MirrorFile]:
        stores = open_stores(self.places, self.options)
        return refit(stores, self.files, TypedRows(self.columns), name="refit", target_bytes=self.file_bytes)


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Writes files again whose columns do not fit those of the table."""

    place: str
    options: Mapping[str, str] | None
    files: Sequence[MirrorFile]
    layout: Layout
    kind: TableKind
    name: str
    file_bytes: int

    def __call__(self) -> list[MirrorFile]:
        store = open_store(self.place, self.options)
        return rewrite(
            store, self.files, self.layout, self.kind, name=self.name, target_bytes=self.file_bytes
        )
