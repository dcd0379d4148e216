"""The commit of a transaction that has written on several shards: all of them commit, or none does.

First every shard prepares: from then on it can commit, whatever happens to it, and waits to be told. If one
cannot, all abort. If all could, the decision is written down on the config server; with that the transaction
is committed, although nobody sees it yet. Then the shards are told, each as often as it takes.

After a crash the decisions that are written down are carried through, and what was prepared without one is
aborted: its client has not been told anything yet. So no shard is left with half of a transaction.

Whoever wants one state of the whole cluster waits while shards commit (`ClusterStates.steady`), and so never
has the transaction on one shard and not on another.
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
from tailrace.mongod.cluster.shard_calls import call
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.sessions import SessionWrites

DECISIONS: Final = "transaction_coordinators"
"""The collection of the config server that has the decisions which may not be carried through yet"""
_PAUSE_SECONDS: Final = 0.05
_LAST_WORDS: Final = frozenset(
    {
        ErrorCode.NoSuchTransaction,
        ErrorCode.TransactionTooOld,
        ErrorCode.InterruptedAtShutdown,
        ErrorCode.ShutdownInProgress,
    }
)
"""After these it makes no sense to tell a shard again: it has given up by itself, or stops"""


class TwoPhaseCommit:
    """Carries the commits of a cluster's transactions through, also those of before a crash."""

    def __init__(self, shards: Mapping[str, Server], config: Store, steady: asyncio.Lock) -> None:
        """``config`` is the config server's store; ``steady`` is held while shards commit."""
        self._shards = shards
        self._config = config
        self._steady = steady
        self._under_way: dict[tuple[bytes, int], asyncio.Task[None]] = {}

    async def commit(self, lsid: bytes, number: int, shards: Sequence[str]) -> None:
        """Commit a transaction on some shards; raises why it was aborted on all of them if it was.

        It goes on if this call is cancelled.
        """
        task = asyncio.get_running_loop().create_task(self._commit(lsid, number, shards))
        self._under_way[lsid, number] = task
        task.add_done_callback(lambda done: self._ended(done, lsid, number))
        await asyncio.shield(task)

    async def wait_for(self, lsid: bytes, number: int) -> None:
        """Return when nothing is being done about a transaction any more."""
        task = self._under_way.get((lsid, number))
        if task is not None:
            await asyncio.wait([task])

    def _ended(self, task: "asyncio.Task[None]", lsid: bytes, number: int) -> None:
        self._under_way.pop((lsid, number), None)
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _commit(self, lsid: bytes, number: int, shards: Sequence[str]) -> None:
        fields = statement_fields(lsid, number)
        try:
            decision = await self._decide(lsid, number, shards)
        except BaseException:
            await self._abort(fields, shards)
            raise
        async with self._steady:
            time = decision["decision"]["commitTimestamp"]
            told = {"commitTransaction": 1, "commitTimestamp": time, **fields}
            await asyncio.gather(*(self._insist(shard, told) for shard in shards))
        await self._mark_end(decision)
        self._config.submit(lambda unit: remove_document(unit, DECISIONS, _id_of(lsid, number)), lambda: None)

    async def _decide(self, lsid: bytes, number: int, shards: Sequence[str]) -> dict[str, Any]:
        """Have all shards prepare, and write down that they can commit; raises why not, if they cannot."""
        prepare = {"prepareTransaction": 1, **statement_fields(lsid, number)}
        calls = (self._call(shard, prepare) for shard in shards)
        replies: list[dict[str, Any]] = []
        # None is left behind: a shard that prepares while others are told to abort would wait for ever.
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
        """Abort everywhere; on a shard that could not prepare it is gone already."""
        aborted = (self._insist(shard, {"abortTransaction": 1, **fields}) for shard in shards)
        await asyncio.gather(*aborted, return_exceptions=True)

    async def _insist(self, shard: str, command: Mapping[str, Any]) -> None:
        """Tell a shard the decision until it has it; a shard that stops finds it when it starts again."""
        while True:
            try:
                await self._call(shard, command)
            except CommandError as error:
                if error.code in _LAST_WORDS:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def _call(self, shard: str, command: Mapping[str, Any]) -> dict[str, Any]:
        return await call(self._shards[shard], command, "admin")

    async def _mark_end(self, decision: Mapping[str, Any]) -> None:
        """Log that all of it is visible, on the first shard, where streams show that."""
        server = self._shards[decision["participants"][0]]
        if not server.parameters[END_OF_TRANSACTION_FLAG]:
            return
        payload = {"endOfTransaction": decision["affectedNamespaces"], **decision["_id"]}
        message = encode({"msg": {"endOfTransaction": 1}})
        entry = Operation("n", "admin.$cmd", message, o2=encode(payload))
        session = SessionWrites(encode(decision["_id"]["lsid"]), decision["_id"]["txnNumber"])
        await server.store.write(lambda unit: unit.log(entry, session=session))

    # -- after a crash ----------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Carry through what was decided before the cluster started, and abort what was not."""
        with self._config.snapshot() as snapshot:
            decisions = list(documents_of(snapshot, DECISIONS))
        for decision in decisions:
            await self._carry_through(decision)
        for shard in self._shards.values():
            for prepared in shard.store.prepared:
                await prepared.abort()

    async def _carry_through(self, decision: Mapping[str, Any]) -> None:
        lsid, number = encode(decision["_id"]["lsid"]), int(decision["_id"]["txnNumber"])
        was_told = True
        for name in decision["participants"]:
            shard = self._shards.get(name)
            prepared = None if shard is None else shard.store.prepared.of_session(lsid)
            if prepared is not None and prepared.txn_number == number:
                await prepared.commit(from_timestamp(decision["decision"]["commitTimestamp"]))
                was_told = False
        if not was_told:
            await self._mark_end(decision)
        await self._config.write(lambda unit: remove_document(unit, DECISIONS, _id_of(lsid, number)))


def statement_fields(lsid: bytes, number: int) -> dict[str, Any]:
    """What tells a shard which transaction a command belongs to."""
    return {**_id_of(lsid, number), "autocommit": False}


def _id_of(lsid: bytes, number: int) -> dict[str, Any]:
    return {"lsid": decode(lsid), "txnNumber": Int64(number)}
