"""Writing to a store, and reading ids from a stream, in tests of the log."""

from typing import Any

from tailrace.bson.documents import decode
from tailrace.log.stream import LogStream
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.write_unit import WriteUnit

EVERYTHING = 1 << 30


def collection_of(unit: WriteUnit, ns: str) -> Collection:
    """Return a collection; create it if it does not exist."""
    database, _, name = ns.partition(".")
    return unit.catalog.collection(ns) or unit.create_collection(database, name)


def ids(stream: LogStream) -> list[Any]:
    """Return the ids of the events that a stream has now."""
    return [decode(row.raw)["documentKey"]["_id"] for row in stream.take(EVERYTHING, EVERYTHING)]
