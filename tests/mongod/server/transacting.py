"""Shared by tests of transactions: open ones, raw statements, the oplog, blocked writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import OperationFailure

from tailrace.bson import documents
from tailrace.mongod.server.sessions.sessions import new_session_id
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.running import Document, RunningServer, wait_for

TRANSIENT = "TransientTransactionError"


@contextmanager
def transaction(client: MongoClient[Document], **options: Any) -> Iterator[ClientSession]:
    """An open transaction, aborted after the block unless it has ended."""
    with client.start_session() as session:
        session.start_transaction(**options)
        yield session


def failure(work: Any, *arguments: Any, **options: Any) -> OperationFailure:
    with pytest.raises(OperationFailure) as raised:
        work(*arguments, **options)
    return raised.value


def entries(server: RunningServer, after: Timestamp) -> list[Document]:
    """The oplog's entries after a time, from the store."""

    async def read() -> list[Document]:
        with server.server.store.snapshot() as snapshot:
            return [documents.decode(raw) for _, raw in snapshot.entries(after.time << 32 | after.inc)]

    return server.call(read())


def now(client: MongoClient[Document]) -> Timestamp:
    reply: Document = client.admin.command("ping")
    time: Timestamp = reply["operationTime"]
    return time


def new_lsid() -> Document:
    """The id of a new session."""
    return documents.decode(new_session_id())


def statement(
    raw: RawClient, lsid: Document, number: int, command: Document, *, start: bool = False
) -> Document:
    """A command of a transaction, as a driver sends it."""
    fields: Document = {"lsid": lsid, "txnNumber": Int64(number), "autocommit": False}
    if start:
        fields["startTransaction"] = True
    return raw.call({**command, "$db": command.get("$db", "shop"), **fields})


def end(raw: RawClient, lsid: Document, number: int, name: str, **fields: Any) -> Document:
    return statement(raw, lsid, number, {name: 1, "$db": "admin", **fields})


def wait_for_blocked(client: MongoClient[Document]) -> Document:
    """Wait for a command that waits for a lock, and return it."""
    found: list[Document] = []

    def is_blocked() -> bool:
        operations = client.admin.command("currentOp")["inprog"]
        found.extend(operation for operation in operations if operation.get("waitingForLock"))
        return bool(found)

    wait_for(is_blocked)
    return found[0]
