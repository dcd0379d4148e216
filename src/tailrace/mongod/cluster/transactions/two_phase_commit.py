"""Commit a transaction that has written on several shards: on all of them, or on none.

First every shard prepares: from then on it can commit, even after a crash, and waits for the decision. If one
cannot prepare, all abort. Otherwise the decision is stored on the config server. With this the transaction is
committed, although nobody sees it yet. Then the decision is sent to each shard until it succeeds.

After a crash, stored decisions are carried out, and transactions that were prepared without a decision are
aborted: their clients have no reply yet. No shard is left with a part of a transaction.

A reader of the whole cluster waits while shards commit (`ClusterStates.multi_shard_lock`), and so never sees
the transaction on one shard and not on another.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson import Int64

from tailrace.bson.documents import decode, encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.entry_bytes import Operation
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.mongod.cluster.placement.config_documents import (
    documents_of,
    insert_document,
    remove_document,
)
from tailrace.mongod.server.dispatch.internal_calls import call
from tailrace.mongod.server.replica_set.member import Member
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import SessionWrites

DECISIONS: Final = "transaction_coordinators"
"""Collection of the config server with decisions that may not have been carried out yet"""
_PAUSE_SECONDS: Final = 0.05
_FINAL_ERRORS: Final = frozenset(
    {
        ErrorCode.NoSuchTransaction,
        ErrorCode.TransactionTooOld,
        ErrorCode.InterruptedAtShutdown,
        ErrorCode.ShutdownInProgress,
    }
)
"""After these errors a command is not repeated: the shard has aborted, or is stopping"""


class TwoPhaseCommit:
    """Commits the transactions of a cluster, including those interrupted by a crash."""

    def __init__(self, shards: Mapping[str, Member], config: Store, multi_shard_lock: asyncio.Lock) -> None:
        """``config`` is the config server's store; ``multi_shard_lock`` is held while shards commit."""
        self._shards = shards
        self._config = config
        self._multi_shard_lock = multi_shard_lock
        self._under_way: dict[tuple[bytes, int], asyncio.Task[None]] = {}

    async def commit(self, lsid: bytes, number: int, shards: Sequence[str]) -> None:
        """Commit a transaction on some shards; raises the cause if it was aborted on all of them.

        It continues if this call is cancelled.
        """
        task = asyncio.get_running_loop().create_task(self._commit(lsid, number, shards))
        self._under_way[lsid, number] = task
        task.add_done_callback(lambda done: self._ended(done, lsid, number))
        await asyncio.shield(task)

    async def wait_for(self, lsid: bytes, number: int) -> None:
        """Wait until a commit of this transaction, if one is running, has ended."""
        task = self._under_way.get((lsid, number))
        if task is not None:
            await asyncio.wait([task])

    def _ended(self, task: "asyncio.Task[None]", lsid: bytes, number: int) -> None:
        self._under_way.pop((lsid, number), None)
        if not task.cancelled():
            task.exception()  # mark it as retrieved; nobody may be waiting

    async def _commit(self, lsid: bytes, number: int, shards: Sequence[str]) -> None:
        fields = statement_fields(lsid, number)
        try:
            decision = await self._decide(lsid, number, shards)
        except BaseException:
            await self._abort(fields, shards)
            raise
        async with self._multi_shard_lock:
            time = decision["decision"]["commitTimestamp"]
            command = {"commitTransaction": 1, "commitTimestamp": time, **fields}
            await asyncio.gather(*(self._call_until_done(shard, command) for shard in shards))
        await self._mark_end(decision)
        self._config.submit(lambda unit: remove_document(unit, DECISIONS, _id_of(lsid, number)), lambda: None)

    async def _decide(self, lsid: bytes, number: int, shards: Sequence[str]) -> dict[str, Any]:
        """Prepare on all shards and store the decision; raises the cause if a shard cannot prepare."""
        prepare = {"prepareTransaction": 1, **statement_fields(lsid, number)}
        calls = (self._call(shard, prepare) for shard in shards)
        replies: list[dict[str, Any]] = []
        # Wait for all: a shard that prepares after the abort would stay prepared.
        for reply in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(reply, BaseException):
                raise reply
            replies.append(reply)
        time = max(reply["prepareTimestamp"] for reply in replies)
        decision = {
            "_id": _id_of(lsid, number),
            "participants": list(shards),
            "decision": {"decision": "commit", "commitTimestamp": time},
            "affectedNamespaces": sorted({ns for reply in replies for ns in reply["affectedNamespaces"]}),
        }
        await self._config.write(lambda unit: insert_document(unit, DECISIONS, decision))
        return decision

    async def _abort(self, fields: Mapping[str, Any], shards: Sequence[str]) -> None:
        """Abort on all shards; a shard that could not prepare has aborted already."""
        aborted = (self._call_until_done(shard, {"abortTransaction": 1, **fields}) for shard in shards)
        await asyncio.gather(*aborted, return_exceptions=True)

    async def _call_until_done(self, shard: str, command: Mapping[str, Any]) -> None:
        """Send the decision to a shard until it succeeds; a shard that stops reads it at its next start."""
        while True:
            try:
                await self._call(shard, command)
            except CommandError as error:
                if error.code in _FINAL_ERRORS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def _call(self, shard: str, command: Mapping[str, Any]) -> dict[str, Any]:
        return await call(self._shards[shard], command, "admin")

    async def _mark_end(self, decision: Mapping[str, Any]) -> None:
        """Log the end of the transaction on the first shard, for streams that show it."""
        server = self._shards[decision["participants"][0]]
        if not server.parameters[END_OF_TRANSACTION_FLAG]:
            return
        payload = {"endOfTransaction": decision["affectedNamespaces"], **decision["_id"]}
        message = encode({"msg": {"endOfTransaction": 1}})
        entry = Operation("n", "admin.$cmd", message, o2=encode(payload))
        session = SessionWrites(encode(decision["_id"]["lsid"]), decision["_id"]["txnNumber"])
        await server.store.write(lambda unit: unit.log(entry, session=session))

    # -- recovery ---------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Carry out stored decisions, and abort every other prepared transaction."""
        with self._config.snapshot() as snapshot:
            decisions = list(documents_of(snapshot, DECISIONS))
        for decision in decisions:
            await self._carry_through(decision)
        for shard in self._shards.values():
            for prepared in shard.store.prepared:
                await prepared.abort()

    async def _carry_through(self, decision: Mapping[str, Any]) -> None:
        lsid, number = encode(decision["_id"]["lsid"]), int(decision["_id"]["txnNumber"])
        was_carried_out = True
        for name in decision["participants"]:
            shard = self._shards.get(name)
            prepared = None if shard is None else shard.store.prepared.of_session(lsid)
            if prepared is not None and prepared.txn_number == number:
                await prepared.commit(from_timestamp(decision["decision"]["commitTimestamp"]))
                was_carried_out = False
        if not was_carried_out:
            await self._mark_end(decision)
        await self._config.write(lambda unit: remove_document(unit, DECISIONS, _id_of(lsid, number)))


def statement_fields(lsid: bytes, number: int) -> dict[str, Any]:
    """The fields of a command that name its transaction."""
    return {**_id_of(lsid, number), "autocommit": False}


def _id_of(lsid: bytes, number: int) -> dict[str, Any]:
    return {"lsid": decode(lsid), "txnNumber": Int64(number)}
