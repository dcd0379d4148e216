"""Checkpoints of the table's log: its whole state at one version, as a Parquet file.

A checkpoint is read and written in pieces of columns. Any reader of Delta reads it: it is one of the first
kind of Delta's protocol, with the actions of a table that has no features, but for deletion vectors. A commit
does not make one; they are made now and then, the more seldom the more files there are (`log_writer.py`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tailrace.lake.data_file import COMMANDS_TAG
from tailrace.lake.files.file_columns import FILE_COLUMNS, joined
from tailrace.lake.files.statistics import parsed_statistics, statistics_texts
from tailrace.lake.storage.log_store import LogStore

LOG: Final = "_delta_log"
LAST_CHECKPOINT: Final = f"{LOG}/_last_checkpoint"
_NAME: Final = re.compile(LOG + r"/(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")

LOG_HOURS: Final = 1
"""Commits that a checkpoint covers stay that long, for readers that are at one of them"""
REMOVED_HOURS: Final = 2
"""Checkpoints have the files that were removed since; those that were removed before are deleted"""
_BATCH_FILES: Final = 16_384
_PARSED_FILES: Final = 4096
_READ: Final = ("path", "size", "modificationTime", "stats", "tags")
_STRINGS: Final = pa.map_(pa.string(), pa.string())
_VECTOR: Final = pa.struct([
    pa.field("storageType", pa.string()),
    pa.field("pathOrInlineDv", pa.string()),
    pa.field("offset", pa.int32()),
    pa.field("sizeInBytes", pa.int32()),
    pa.field("cardinality", pa.int64()),
])  # fmt: skip
_ADD: Final = pa.struct([
    pa.field("path", pa.string()),
    pa.field("partitionValues", _STRINGS),
    pa.field("size", pa.int64()),
    pa.field("modificationTime", pa.int64()),
    pa.field("dataChange", pa.bool_()),
    pa.field("stats", pa.string()),
    pa.field("tags", _STRINGS),
    pa.field("deletionVector", _VECTOR),
])  # fmt: skip
_REMOVE: Final = pa.struct([
    pa.field("path", pa.string()),
    pa.field("deletionTimestamp", pa.int64()),
    pa.field("dataChange", pa.bool_()),
    pa.field("extendedFileMetadata", pa.bool_()),
    pa.field("partitionValues", _STRINGS),
    pa.field("size", pa.int64()),
    pa.field("deletionVector", _VECTOR),
])  # fmt: skip
_SCHEMA: Final = pa.schema([
    ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
    ("add", _ADD),
    ("remove", _REMOVE),
    ("metaData", pa.struct([
        ("id", pa.string()), ("name", pa.string()), ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
        ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string())),
        ("createdTime", pa.int64()), ("configuration", _STRINGS),
    ])),
    ("protocol", pa.struct([
        ("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())), ("writerFeatures", pa.list_(pa.string())),
    ])),
])  # fmt: skip


class Removal(NamedTuple):
    """A file that was removed from the table, and may still be there for its readers."""

    path: str
    moment: int
    """When it was removed, in milliseconds since 1970"""
    size: int
    vector: Mapping[str, Any] | None = None
    """The deletion vector that the file had. A file that gets another one is removed and added again."""

    @property
    def key(self) -> tuple[str, str | None, int | None]:
        """Differs if the file or its vector does."""
        vector = self.vector or {}
        return self.path, vector.get("pathOrInlineDv"), vector.get("offset")

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> "Removal":
        """From a `remove`."""
        moment, size = action.get("deletionTimestamp"), action.get("size")
        return cls(action["path"], moment or 0, size or 0, action.get("deletionVector"))


class CheckpointFiles(NamedTuple):
    """The files of one checkpoint."""

    version: int
    names: tuple[str, ...]


def newest_checkpoint(names: Iterable[str]) -> CheckpointFiles | None:
    """The newest of the checkpoints that are among the files of a log, with all its parts."""
    parts: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if (found := _NAME.fullmatch(name)) is not None:
            parts.setdefault((int(found[1]), int(found[3] or 1)), []).append(name)
    whole = [(version, found) for (version, count), found in parts.items() if len(found) == count]
    return (
        CheckpointFiles(*max((version, tuple(sorted(found))) for version, found in whole)) if whole else None
    )


def checkpoint_name(version: int) -> str:
    """The name of a checkpoint that is one file."""
    return f"{LOG}/{version:020d}.checkpoint.parquet"


def read_files(store: LogStore, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The data files of a checkpoint as columns (`FILE_COLUMNS`), in pieces."""
    for batch in _batches(store, names, [f"add.{name}" for name in _READ]):
        added = batch.column("add").drop_null()
        if len(added):
            pieces = range(0, len(added), _PARSED_FILES)
            yield joined(_parsed(added.slice(start, _PARSED_FILES)) for start in pieces)


def _parsed(added: pa.StructArray) -> pa.RecordBatch:
    columns = dict(zip((field.name for field in added.type), added.flatten(), strict=True))
    arrays = {
        "path": columns["path"],
        "size": columns["size"],
        "modified": columns["modificationTime"],
        "commands": _commands(columns.get("tags"), len(added)),
        **parsed_statistics(columns["stats"]),
    }
    return pa.record_batch([arrays[name] for name in FILE_COLUMNS.names], schema=FILE_COLUMNS)


def _commands(tags: pa.MapArray | None, count: int) -> pa.Array:
    if tags is None:
        return pa.nulls(count, pa.int64())
    return pc.map_lookup(tags, query_key=COMMANDS_TAG, occurrence="first").cast(pa.int64())


def read_additions(store: LogStore, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The data files of a checkpoint one by one, as a commit has them; for tables with few of them."""
    for batch in _batches(store, names, ["add"]):
        for added in batch.column("add").drop_null().to_pylist():
            yield {**added, "tags": dict(added["tags"] or ())}


def read_removals(store: LogStore, names: Sequence[str]) -> Iterator[Removal]:
    """The removed files that a checkpoint still has."""
    columns = ["path", "deletionTimestamp", "size", "deletionVector"]
    for batch in _batches(store, names, [f"remove.{name}" for name in columns]):
        yield from map(Removal.of, batch.column("remove").drop_null().to_pylist())


def read_actions(store: LogStore, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The other actions of a checkpoint, as a commit has them: of the table itself, and transactions."""
    for name in ("protocol", "metaData", "txn"):
        for batch in _batches(store, names, [name]):
            for action in batch.column(name).drop_null().to_pylist():
                yield _with_maps({name: action})


def _batches(store: LogStore, names: Sequence[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    for name in names:
        with store.open(name, mapped=False) as source, pq.ParquetFile(source) as file:
            for group in range(file.num_row_groups):  # all at once, they would stay in memory together
                yield from file.iter_batches(_BATCH_FILES, row_groups=[group], columns=columns)


def write_checkpoint(
    store: LogStore,
    version: int,
    *,
    actions: Sequence[Mapping[str, Any]],
    removals: Sequence[Removal],
    files: Iterable[pa.RecordBatch],
) -> None:
    """Write the state at a version: the data files as columns, and what else the log has.

    One that is there already stays.
    """
    name = checkpoint_name(version)
    file = store.new_file(name)
    count = 0
    try:
        with pq.ParquetWriter(
            pa.PythonFile(file.content, mode="w"),
            _SCHEMA,
            compression="zstd",
            use_dictionary=False,
            write_statistics=False,
            store_schema=False,
        ) as writer:
            writer.write_batch(_others(actions))
            for start in range(0, len(removals), _BATCH_FILES):
                writer.write_batch(_filled("remove", _removed(removals[start : start + _BATCH_FILES])))
            for batch in files:
                writer.write_batch(_filled("add", _added(batch)))
                count += batch.num_rows
        size = file.content.tell()
        file.place(name)
    finally:
        file.discard()
    hint = {
        "version": version,
        "size": len(actions) + len(removals) + count,
        "sizeInBytes": size,
        "numOfAddFiles": count,
    }
    store.replace(LAST_CHECKPOINT, json.dumps(hint).encode())


def _others(actions: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{**action} for action in map(_with_pairs, actions)], _SCHEMA)


def _with_pairs(action: Mapping[str, Any]) -> Mapping[str, Any]:
    """An action with its maps as Arrow has them."""
    if (added := action.get("add")) is not None:
        return {"add": {**added, "partitionValues": [], "tags": list(added["tags"].items())}}
    if (table := action.get("metaData")) is None:
        return action
    kind = {**table["format"], "options": list((table["format"].get("options") or {}).items())}
    return {"metaData": {**table, "format": kind, "configuration": list(table["configuration"].items())}}


def _with_maps(action: dict[str, Any]) -> dict[str, Any]:
    """An action with its maps as a commit has them."""
    if (table := action.get("metaData")) is not None:
        table["configuration"] = dict(table["configuration"])
        table["format"]["options"] = dict(table["format"]["options"] or ())
    return action


def _added(files: pa.RecordBatch) -> pa.StructArray:
    return _structs(
        _ADD,
        files["path"],
        _no_values(files.num_rows),
        files["size"],
        files["modified"],
        pa.repeat(pa.scalar(False), files.num_rows),
        statistics_texts(files),
        _tags(files["commands"]),
        pa.nulls(files.num_rows, _VECTOR),
    )


def _removed(files: Sequence[Removal]) -> pa.StructArray:
    count = len(files)
    return _structs(
        _REMOVE,
        pa.array([file.path for file in files], pa.string()),
        pa.array([file.moment for file in files], pa.int64()),
        pa.repeat(pa.scalar(False), count),
        pa.repeat(pa.scalar(True), count),
        _no_values(count),
        pa.array([file.size for file in files], pa.int64()),
        pa.array([file.vector for file in files], _VECTOR),
    )


def _structs(kind: pa.StructType, *columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _tags(commands: pa.Array) -> pa.MapArray:
    values = commands.drop_null().cast(pa.string())
    offsets = np.cumsum([0, *commands.is_valid().to_numpy(zero_copy_only=False)], dtype=np.int32)
    return pa.MapArray.from_arrays(offsets, pa.repeat(COMMANDS_TAG, len(values)), values)


def _no_values(count: int) -> pa.MapArray:
    """Empty maps: the table has no partitions."""
    none = pa.array([], pa.string())
    return pa.MapArray.from_arrays(np.zeros(count + 1, np.int32), none, none)


def _filled(name: str, column: pa.StructArray) -> pa.RecordBatch:
    """Rows with actions of one kind."""
    nulls = (pa.nulls(len(column), field.type) for field in _SCHEMA)
    columns = [column if field.name == name else null for field, null in zip(_SCHEMA, nulls, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
