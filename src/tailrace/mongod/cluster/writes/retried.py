"""What a retryable command did when it was sent before, wherever in the cluster that was.

A shard remembers what it executed, and does not execute it again. But the range that a statement is about may
have moved since, to a shard that remembers nothing. So the router asks all shards before it sends anything,
and sends what was executed to the shard that did it, which tells the first result again.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.server.writes.retries import RetryHistory
from tailrace.mongod.store.transactions.sessions import SessionWrites, session_key

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster


@dataclass(slots=True)
class Executed:
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


def executed_before(cluster: "Cluster", lsid: bytes, number: int) -> Executed:
    """What was executed under a session's transaction number."""
    found = Executed()
    key = session_key(lsid)
    for name in (*cluster.shards, CONFIG_SHARD):
        with cluster.server(name).store.snapshot() as snapshot:
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
