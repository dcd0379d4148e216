"""The oplog entries of one database, for tests of what commands log."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import bson
import pytest
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document, RunningServer

began: dict[str, int] = {}
"""When the database of a test began: tests share a server, whose oplog becomes long."""


def entries(server: RunningServer, database: str) -> list[Document]:
    """The entries of the database, including those with operations on it; oldest first."""
    with server.server.store.snapshot() as snapshot:
        found = [bson.decode(raw) for _, raw in snapshot.entries(began.get(database, 0))]
    return [entry for entry in found if any(ns.partition(".")[0] == database for ns in _namespaces(entry))]


def commands(server: RunningServer, database: str) -> list[Document]:
    """The `o` of the database's command entries."""
    return [entry["o"] for entry in entries(server, database) if entry["ns"] == f"{database}.$cmd"]


def last_entry(server: RunningServer, database: str) -> Document:
    return entries(server, database)[-1]


def _namespaces(entry: Document) -> Iterator[str]:
    yield entry["ns"]
    for operation in entry["o"].get("applyOps", ()):
        yield operation["ns"]


@contextmanager
def refused(code: int, text: str = "") -> Iterator[None]:
    """Asserts that the block fails with this code and a message that contains the text."""
    with pytest.raises(OperationFailure) as failure:
        yield
    details: Any = failure.value.details
    assert failure.value.code == code, details
    assert text in details["errmsg"]
