"""Build indexes on a collection with documents, in short jobs between which others write.

The first job logs the start and enters the build into the catalog. From then on every write keeps the new
indexes right for the documents that it changes (`table_writer.py`); nobody reads them. Meanwhile the other
documents are read in pieces, outside of the writer, and jobs add the keys of those that have not changed
since. The last job makes the indexes visible and logs the commit, or discards them and logs why.

Two documents may have the same key in a unique index for some time, and a document may have values that
cannot be indexed. Such records are noted; the build fails if they are still so at its end. The build of a
server that has ended is discarded when the store is opened again.
"""

import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Binary

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.entry_bytes import command
from tailrace.mongod.store.catalog import Collection, Index, IndexBuild
from tailrace.mongod.store.indexes.duplicate_key import duplicate_key
from tailrace.mongod.store.indexes.index_keys import index_keys, paced_index_keys
from tailrace.mongod.store.indexes.index_values import INDEXED_ARRAY, IndexPaths
from tailrace.mongod.store.reader import Reader
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.pacing import tick

_SMALL: Final = 1 << 16
"""Bytes of documents, for each index, that are read within one job"""
_MOST_KEYS: Final = 1000
_MOST_RECORDS: Final = 500
_MOST_BYTES: Final = 1 << 20
_MOST_UNCLEAR: Final = 1000
"""Records after which they are checked before the end"""


@dataclass(frozen=True, slots=True)
class BuildEntry:
    """Keys to add for one record, as long as it has not changed."""

    record_key: bytes
    document: bytes
    index: Index
    keys: Sequence[bytes]
    is_multikey: bool


def begin_build(
    unit: WriteUnit, collection: Collection, specs: Sequence[Mapping[str, Any]]
) -> "BuildScan | CommandError | None":
    """Begin to build indexes; returns what is to be read for that.

    The build of a small collection ends at once; then it returns None, or the error that it has failed with.
    """
    build = IndexBuild(uuids.uuid4().bytes, tuple(Index(unit.new_ident(), spec) for spec in specs))
    _log(unit, collection, build, "startIndexBuild")
    collection = collection.with_changes(build=build)
    if unit.count(collection)[1] * len(specs) > _SMALL:
        unit.put_build(collection)
        last, _ = next(unit.records(collection, reverse=True), (b"", b""))
        return BuildScan(collection, last)
    for key, document in unit.records(collection):
        _enter(unit, collection, build, key, document)
    return finish_build(unit, collection)


class BuildScan:
    """Reads the documents of a collection, and makes their keys."""

    def __init__(self, collection: Collection, last: bytes) -> None:
        """``last`` is the key of the last record when the build began: those after it are entered anyway."""
        assert collection.build is not None, "its indexes are being built"
        self.collection = collection
        self.build = collection.build
        self._after: bytes | None = None
        self._last = last
        self._held: list[BuildEntry] = []

    def next_piece(self, reader: Reader) -> list[BuildEntry]:
        """The keys for the next job; none at the end. With ticks."""
        room = 0 if self._held else _MOST_BYTES
        for key, document in reader.records(self.collection, self._after) if room else ():
            if key > self._last:
                break
            self._after = key
            for index in self.build.indexes:
                self._hold(key, document, index)
            tick()
            room -= len(document)
            if room <= 0 or len(self._held) >= _MOST_RECORDS:
                break
        piece: list[BuildEntry] = []
        keys = 0
        while len(piece) < len(self._held) and (not piece or keys < _MOST_KEYS):
            piece.append(self._held[len(piece)])
            keys += len(piece[-1].keys)
        del self._held[: len(piece)]
        return piece

    def _hold(self, key: bytes, document: bytes, index: Index) -> None:
        try:
            check_measured(self.collection, index, document)
            keys = paced_index_keys(index, document)
        except CommandError:
            self.build.unclear.add(key)
            return
        for start in range(0, len(keys), _MOST_KEYS):
            some = keys[start : start + _MOST_KEYS]
            self._held.append(BuildEntry(key, document, index, some, len(keys) > 1))


def add_keys(unit: WriteUnit, scan: BuildScan, piece: Sequence[BuildEntry]) -> None:
    """Add a piece to the indexes; a job."""
    collection = _current(unit, scan)
    _add(unit, collection, scan.build, piece)
    if len(scan.build.unclear) > _MOST_UNCLEAR:
        _settle(unit, collection, scan.build)


def _add(unit: WriteUnit, collection: Collection, build: IndexBuild, piece: Sequence[BuildEntry]) -> None:
    for entry in piece:
        # A record that has changed since was entered by the write that changed it.
        if unit.record(collection, entry.record_key) == entry.document:
            for key in entry.keys:
                unit.enter_built(build, entry.index, key, entry.record_key)
            if entry.is_multikey:
                unit.note_multikey(entry.index)


def end_build(unit: WriteUnit, scan: BuildScan) -> CommandError | None:
    """Make the indexes visible, or discard them and return the reason; a job."""
    return finish_build(unit, _current(unit, scan))


def finish_build(unit: WriteUnit, collection: Collection) -> CommandError | None:
    build = collection.build
    assert build is not None, "its indexes are being built"
    try:
        _settle(unit, collection, build)
    except CommandError as error:
        abort_build(unit, collection, error)
        return error
    indexes = (*collection.indexes, *build.indexes)
    unit.put_collection(collection.with_changes(indexes=indexes, build=None))
    _log(unit, collection, build, "commitIndexBuild")
    return None


def abort_build(unit: WriteUnit, collection: Collection, error: CommandError) -> None:
    """Discard what was built, and log why."""
    build = collection.build
    if build is None:
        return
    for index in build.indexes:
        unit.discard("index", index.ident)
    unit.put_build(collection.with_changes(build=None))
    cause = {
        "ok": False,
        "code": error.code,
        "codeName": error.code_name,
        "errmsg": error.message,
        **error.details,
    }
    _log(unit, collection, build, "abortIndexBuild", {"cause": cause})


def abort_scanned(unit: WriteUnit, scan: BuildScan, error: CommandError) -> None:
    """Like `abort_build`, unless the collection is gone; a job."""
    collection = unit.catalog.by_uuid(scan.collection.uuid)
    if collection is not None and collection.build is scan.build:
        abort_build(unit, collection, error)


def discard_builds(unit: WriteUnit) -> None:
    """Discard the builds of the server that used the store before."""
    error = CommandError(ErrorCode.InterruptedAtShutdown, "the server has ended during the index build")
    for collection in list(unit.catalog.collections()):
        abort_build(unit, collection, error)


def _current(unit: WriteUnit, scan: BuildScan) -> Collection:
    collection = unit.catalog.by_uuid(scan.collection.uuid)
    if collection is None or collection.build is not scan.build:
        reason = f"the collection {scan.collection.ns} was dropped during the index build"
        raise CommandError(ErrorCode.IndexBuildAborted, reason)
    return collection


def _settle(unit: WriteUnit, collection: Collection, build: IndexBuild) -> None:
    """Enter the records that were unclear; raises if one cannot be.

    Of several duplicates the lowest key is reported, which a build finds first.
    """
    duplicates: list[tuple[int, bytes, bytes]] = []
    for record_key in sorted(build.unclear):
        document = unit.record(collection, record_key)
        if document is None:
            continue
        for number, index in enumerate(build.indexes):
            check_measured(collection, index, document)
            keys = index_keys(index, document)
            if len(keys) > 1:
                unit.note_multikey(index)
            duplicates += [
                (number, key, document) for key in keys if not unit.enter_built(build, index, key, record_key)
            ]
    if duplicates:
        number, key, document = min(duplicates, key=lambda found: found[:2])
        raise duplicate_key(collection, build.indexes[number].spec, document, key)


def _enter(
    unit: WriteUnit, collection: Collection, build: IndexBuild, record_key: bytes, document: bytes
) -> None:
    for index in build.indexes:
        try:
            check_measured(collection, index, document)
            keys = index_keys(index, document)
        except CommandError:
            build.unclear.add(record_key)
            continue
        for key in keys:
            unit.enter_built(build, index, key, record_key)
        if len(keys) > 1:
            unit.note_multikey(index)


def check_measured(collection: Collection, index: Index, bucket: bytes) -> None:
    """Refuse an array in a measured field of an index of a time series."""
    if "timeseries" in collection.options:
        paths = [path for path, _ in index.key if path.startswith("control.")]
        if IndexPaths(paths).meet_array(documents.decode(bucket)):
            raise CommandError(INDEXED_ARRAY, "Indexed measurement field contains an array value")


def _log(
    unit: WriteUnit,
    collection: Collection,
    build: IndexBuild,
    name: str,
    more: Mapping[str, Any] | None = None,
) -> None:
    if collection.is_logged:
        indexes = [dict(index.spec) for index in build.indexes]
        o = {name: collection.name, "indexBuildUUID": Binary(build.uuid, 4), "indexes": indexes}
        unit.log(command(collection.database, {**o, **(more or {})}, uuid=collection.uuid))
