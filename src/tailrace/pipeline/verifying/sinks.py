"""Read what a pipeline has written: JSON lines, Parquet, Delta, a collection."""

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any, Final, Protocol, cast

import pyarrow as pa
import pyarrow.dataset as ds
from pymongo import MongoClient

from tailrace.bson import extjson
from tailrace.errors import BsonError, CommandError, UsageError
from tailrace.lake.storage.delta_rows import delta_rows
from tailrace.pipeline.verifying.event_check import FoundEvent, Order, token_of
from tailrace.places import is_object_store
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.connection_string import is_uri
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.raw_documents import split_documents

TOKEN_COLUMNS: Final = ("token", "resumeToken", "_id")
EVENT_COLUMNS: Final = ("event",)
DOCUMENT_COLUMNS: Final = ("document", "fullDocument")
_LINES: Final = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz")
_PARQUET: Final = ".parquet"
_BATCH_ROWS: Final = 8192


class Sink(Protocol):
    """What can be compared; it can be read several times."""

    order: Order
    """In which order it has to have its events, if the user does not say."""

    def events(self) -> Iterator[FoundEvent]: ...

    def documents(self) -> Iterator[bytes]: ...


def open_sink(place: str, namespace: str | None = None, column: str | None = None) -> Sink:
    """Open a sink; `UsageError` if it is none.

    ``namespace`` is the collection of a deployment. ``column`` is the column of a table that has the event or
    the document, as BSON or as Extended JSON.
    """
    if is_uri(place):
        if namespace is None or "." not in namespace:
            raise UsageError("name the collection of the sink with --sink-ns DB.COLL")
        return _Collection(place, namespace)
    if is_object_store(place) or (Path(place) / "_delta_log").is_dir():
        return _Table(lambda: delta_rows(place), place, column)
    path = Path(place)
    if not path.exists():
        raise UsageError(f"there is no sink {place}")
    files = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
    if parquet := [file for file in files if file.name.endswith(_PARQUET)]:
        return _Table(lambda: ds.dataset([str(file) for file in parquet], format="parquet"), place, column)
    if lines := [file for file in files if file.name.endswith(_LINES) or not path.is_dir()]:
        return _Lines(lines)
    raise UsageError(f"{place} has no file with a name that ends in {_PARQUET} or {', '.join(_LINES[:3])}")


class _Lines:
    """Extended JSON, one event or document in a line; files are read by their names."""

    order = Order.TOTAL

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths

    def events(self) -> Iterator[FoundEvent]:
        for raw in self.documents():
            yield FoundEvent(token_of(raw), raw)

    def documents(self) -> Iterator[bytes]:
        for path in self._paths:
            with _opened(path) as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        yield _parsed(line, f"line {number} of {path}")


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _parsed(text: str, where: str) -> bytes:
    try:
        return extjson.loads(text)
    except (BsonError, CommandError, ValueError) as error:
        raise UsageError(f"{where} is no document in Extended JSON: {error}") from None


class _Table:
    """Rows of Parquet files or of a Delta table; their order says nothing."""

    order = Order.NONE

    def __init__(self, open_rows: Callable[[], Any], place: str, column: str | None) -> None:
        self._open = open_rows
        self._place = place
        self._column = column

    def events(self) -> Iterator[FoundEvent]:
        rows = self._open()
        token = self._named(rows.schema, None, TOKEN_COLUMNS, "the resume token")
        whole = self._column or next((name for name in EVENT_COLUMNS if name in rows.schema.names), None)
        if self._column is not None:
            self._named(rows.schema, self._column, (), "the event")
        names = [token] if whole is None else [token, whole]
        for batch in rows.to_batches(columns=names, batch_size=_BATCH_ROWS):
            tokens = batch.column(0).to_pylist()
            events = [None] * len(tokens) if whole is None else batch.column(1).to_pylist()
            for name, event in zip(tokens, events, strict=True):
                yield FoundEvent(_token_text(name), None if event is None else self._bson(event))

    def documents(self) -> Iterator[bytes]:
        rows = self._open()
        column = self._named(rows.schema, self._column, DOCUMENT_COLUMNS, "the document")
        for batch in rows.to_batches(columns=[column], batch_size=_BATCH_ROWS):
            for value in batch.column(0).to_pylist():
                if value is not None:
                    yield self._bson(value)

    def _named(self, schema: pa.Schema, given: str | None, usual: tuple[str, ...], what: str) -> str:
        found = [name for name in ((given,) if given is not None else usual) if name in schema.names]
        if not found:
            wanted = given or " or ".join(usual)
            raise UsageError(
                f"{self._place} has no column {wanted} with {what}; its columns are {', '.join(schema.names)}"
            )
        return found[0]

    def _bson(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return _parsed(value, f"a value of {self._place}")
        raise UsageError(f"the column with events or documents of {self._place} has to be BSON or JSON")


def _token_text(value: Any) -> str:
    """A token in any of the usual forms: its text, a struct, JSON."""
    if isinstance(value, str) and value.startswith("{"):
        value = json.loads(value)
    found = value.get("_data") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


class _Collection:
    """A collection with events, as they were inserted, or with documents."""

    order = Order.NONE

    def __init__(self, uri: str, namespace: str) -> None:
        self._uri = uri
        self._database, _, self._name = namespace.partition(".")

    def events(self) -> Iterator[FoundEvent]:
        for raw in self.documents():
            yield FoundEvent(token_of(raw), raw)

    def documents(self) -> Iterator[bytes]:
        client: MongoClient[dict[str, Any]] = MongoClient(self._uri)
        with closing(client), driver_errors(self._uri, rights.documents_of(f"{self._database}.{self._name}")):
            for batch in client[self._database][self._name].find_raw_batches({}):
                yield from split_documents(cast("bytes", batch))
