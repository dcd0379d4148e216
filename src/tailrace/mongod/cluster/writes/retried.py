"""Find out what a retryable command has already executed, on any shard.

A shard stores what it has executed and does not execute it again. But the range of a statement may have moved
since to a shard that has not executed it. So the router asks all shards first, and sends an executed
statement to the shard that has executed it, which returns the first result again.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.writes.retries import RetryHistory
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import SessionWrites, session_key


@dataclass(slots=True)
class ExecutedStatements:
    """The executed statements of one command, and their shards."""

    shards: dict[int, str] = field(default_factory=dict)
    is_complete: bool = True

    def shard_of(self, statement_id: int | None) -> str | None:
        """The shard that has executed a statement; None if none has. Raises if the history is incomplete."""
        if statement_id is None:
            return None
        shard = self.shards.get(statement_id)
        if shard is None and not self.is_complete:
            raise CommandError(
                ErrorCode.IncompleteTransactionHistory,
                f"Incomplete history detected: whether statement {statement_id} was executed is not known, "
                "because the oplog of a shard no longer has all entries of the session",
            )
        return shard


def find_executed(stores: Mapping[str, Store], lsid: bytes, number: int) -> ExecutedStatements:
    """What was executed under a session's transaction number."""
    found = ExecutedStatements()
    key = session_key(lsid)
    for name, store in stores.items():
        with store.snapshot() as snapshot:
            session = SessionWrites.under(lsid, number, snapshot.session_record(key))
            if session.state is None:
                history = RetryHistory(snapshot, session)
                found.shards.update(dict.fromkeys(history.statements, name))
                found.is_complete &= history.is_complete
    return found


class SessionLocks:
    """Locks by session: a session runs one retryable command at a time, through any router."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    def of(self, lsid: bytes) -> asyncio.Lock:
        lock = self._locks.get(lsid)
        if lock is None:
            lock = self._locks[lsid] = asyncio.Lock()
        return lock
