"""Write events to Parquet files, in columns that have the names of an event's fields.

A file is there when it is complete: it is written under another name, and renamed at its end.
"""

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from bson.raw_bson import RawBSONDocument

from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import UsageError
from tailrace.events.cluster_time import as_signed, from_timestamp

SCHEMA: Final = pa.schema(
    [
        ("token", pa.string()),
        ("operationType", pa.string()),
        ("clusterTime", pa.int64()),
        ("wallTime", pa.timestamp("ms", "UTC")),
        ("ns", pa.struct([("db", pa.string()), ("coll", pa.string())])),
        ("documentKey", pa.string()),
        ("fullDocument", pa.string()),
        ("fullDocumentBeforeChange", pa.string()),
        ("updateDescription", pa.string()),
        ("event", pa.string()),
    ]
)
"""Documents are canonical Extended JSON; `event` is the whole event."""
_DOCUMENTS: Final = ("documentKey", "fullDocument", "fullDocumentBeforeChange", "updateDescription")
_GROUP_ROWS: Final = 10_000
_FILE_ROWS: Final = 100_000
_FILE_SECONDS: Final = 60.0
"""A file of a folder is finished when it is that old, so that a reader sees its events."""


class ParquetFile:
    """One file, which is there at the end."""

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise UsageError(f"{path} exists; name another file, or a folder, which gets further files")
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._rows: list[dict[str, Any]] = []
        self.taken = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._partial, SCHEMA, compression="zstd")
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None

    def take(self, event: RawBSONDocument) -> None:
        self._rows.append(_row(event))
        self.taken += 1
        if len(self._rows) >= _GROUP_ROWS:
            self._write()

    def pause(self) -> None:
        """A file is not cut for a pause."""

    def secure(self) -> bool:
        """False until the file is complete, unless nothing was taken."""
        return self.taken == 0

    def close(self) -> None:
        if self._rows:
            self._write()
        self._writer.close()
        with open(self._partial, "rb") as file:
            os.fsync(file.fileno())
        os.rename(self._partial, self._path)

    def _write(self) -> None:
        self._writer.write_table(pa.Table.from_pylist(self._rows, SCHEMA))
        self._rows.clear()


class ParquetFolder:
    """Files of up to 100,000 events or a minute, whose names sort like their events."""

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from None
        self._path = path
        self._file: ParquetFile | None = None
        self._began = 0.0

    def take(self, event: RawBSONDocument) -> None:
        if self._file is None:
            self._file = self._new_file(event)
        self._file.take(event)
        if self._file.taken >= _FILE_ROWS:
            self.close()

    def pause(self) -> None:
        if self._file is not None and time.monotonic() - self._began >= _FILE_SECONDS:
            self.close()

    def secure(self) -> bool:
        """Finish a file that is old enough."""
        self.pause()
        return self._file is None

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _new_file(self, event: RawBSONDocument) -> ParquetFile:
        """The name begins with the cluster time of the first event; a repeated event gets another file."""
        time_of_first = event.get("clusterTime")
        stem = f"{0 if time_of_first is None else from_timestamp(time_of_first):016x}"
        self._began = time.monotonic()
        numbers = range(10**6)
        names = (self._path / f"events-{stem}-{number:04d}.parquet" for number in numbers)
        return ParquetFile(next(name for name in names if not name.exists()))


def _row(event: RawBSONDocument) -> dict[str, Any]:
    identifier, ns, cluster_time = event.get("_id"), event.get("ns"), event.get("clusterTime")
    return {
        "token": identifier.get("_data") if isinstance(identifier, RawBSONDocument) else None,
        "operationType": event.get("operationType"),
        "clusterTime": None if cluster_time is None else as_signed(from_timestamp(cluster_time)),
        "wallTime": _moment(event.get("wallTime")),
        "ns": {"db": ns.get("db"), "coll": ns.get("coll")} if isinstance(ns, RawBSONDocument) else None,
        **{name: _json(event.get(name)) for name in _DOCUMENTS},
        "event": dumps_canonical(bytes(event.raw)),
    }


def _moment(value: Any) -> datetime | None:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else None


def _json(value: Any) -> str | None:
    return dumps_canonical(bytes(value.raw)) if isinstance(value, RawBSONDocument) else None
