"""What a retryable command did when it was sent before, wherever in the cluster that was.

A shard remembers what it executed, and does not execute it again. But the range that a statement is about may
have moved since, to a shard that remembers nothing. So the router asks all shards before it sends anything,
and sends what was executed to the shard that did it, which tells the first result again.
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
    """The statements of one command that were executed, and by which shard."""

    shards: dict[int, str] = field(default_factory=dict)
    is_complete: bool = True

    def shard_of(self, statement_id: int | None) -> str | None:
        """Who has executed a statement; None if nobody has. Raises if that is no longer known."""
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
            record = snapshot.session_record(key)
            session = SessionWrites(lsid, number) if record is None else SessionWrites.from_bson(record)
            if session.txn_number > number:
                raise CommandError(
                    ErrorCode.TransactionTooOld,
                    f"the transaction number {number} is older than {session.txn_number}, which this session "
                    "has used since",
                )
            if session.txn_number < number:
                session = SessionWrites(lsid, number)
            if session.state is None:
                history = RetryHistory(snapshot, session)
                found.shards.update(dict.fromkeys(history.statements, name))
                found.is_complete &= history.is_complete
    return found


class SessionLocks:
    """Locks by session, so that a session runs one retryable command at a time, through whichever router."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    def of(self, lsid: bytes) -> asyncio.Lock:
        """The lock of a session."""
        lock = self._locks.get(lsid)
        if lock is None:
            lock = self._locks[lsid] = asyncio.Lock()
        return lock
