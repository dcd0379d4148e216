"""Run the moves of data in a cluster: one at a time, finished or undone when a cluster starts again.

Every move is recorded in `config.migrations` of the config server before it copies anything. A cluster that
was killed finds the record when it starts, and finishes or undoes the move. The placement decides which: it
changes in one step, and from then on the data is in its new place.

A move continues when the client that asked for it disconnects. When the cluster stops, the move is left
unfinished. After a move, the data is removed from shards that no longer own it as soon as no cursor reads it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from bson import ObjectId

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.placement.changes import Placement
from tailrace.mongod.cluster.placement.config_documents import (
    documents_of,
    insert_document,
    remove_document,
)
from tailrace.mongod.cluster.placement.state import CONFIG_SHARD
from tailrace.mongod.cluster.reads.states import ClusterStates
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.store.store import Store

T = TypeVar("T")
_RECORDS: Final = "migrations"

Recovery: TypeAlias = "Callable[[DataMoves, Mapping[str, Any]], Coroutine[Any, Any, None]]"
"""Finishes or undoes the move of a record"""


class MoveRecords:
    """The documents of `config.migrations`, one for each move that has not been cleaned up."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._store.snapshot() as snapshot:
            return iter(list(documents_of(snapshot, _RECORDS)))

    async def add(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Write a record with a new `_id`; it is on disk when this returns."""
        record = {"_id": ObjectId(), **facts}
        await self._store.write(lambda unit: insert_document(unit, _RECORDS, record))
        return record

    async def remove(self, record: Mapping[str, Any]) -> None:
        """Remove a record whose move has been cleaned up."""
        await self._store.write(lambda unit: remove_document(unit, _RECORDS, record["_id"]))


@dataclass(frozen=True, slots=True, eq=False)
class Cleanup:
    """The task that removes what a move has left on shards that do not own it."""

    record: Mapping[str, Any]
    task: "asyncio.Task[None]"


def recipient_shard(placement: Placement, name: str) -> str:
    """The name of a shard that data may be moved to.

    Raises ShardNotFound (70), or OperationFailed (96) if the shard is being removed.
    """
    shard = placement.shard(name)
    if shard.is_draining:
        raise CommandError(
            ErrorCode.OperationFailed, f"nothing can be moved to {shard.name}, which is being removed"
        )
    return shard.name


class DataMoves:
    """The moves of one cluster, and the parts of the cluster that moves work on."""

    def __init__(
        self,
        placement: Placement,
        stores: Mapping[str, Store],
        states: ClusterStates,
        log: Logbook,
        recoveries: Mapping[str, Recovery],
        in_background: Container[str],
        after_copy: Callable[[str], Awaitable[None]],
    ) -> None:
        """``stores`` are those of the shards and of the config server, by name; the mapping may change.

        ``recoveries`` are by the kind of a move. A cluster does not wait for those ``in_background`` when it
        starts. ``after_copy`` is awaited with a recipient's name when it has the documents of a range, for
        fail points.
        """
        self.placement = placement
        self.after_copy = after_copy
        self.stores = stores
        self.records = MoveRecords(stores[CONFIG_SHARD])
        self._states = states
        self._log = log
        self._recoveries = recoveries
        self._in_background = in_background
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self.cleanups: dict[Any, Cleanup] = {}
        """By the ids of their records"""

    async def run(
        self,
        move: Callable[[], Coroutine[Any, Any, T]],
        *,
        must_wait_for: Callable[[Mapping[str, Any]], bool] = lambda _record: False,
    ) -> T:
        """Run a move when no other one is running; it continues even if this call is cancelled.

        ``must_wait_for`` decides by its record whether an earlier move has to be cleaned up first.
        """
        return await asyncio.shield(self._start(self._in_turn(move, must_wait_for)))

    async def _in_turn(
        self, move: Callable[[], Coroutine[Any, Any, T]], must_wait_for: Callable[[Mapping[str, Any]], bool]
    ) -> T:
        while True:
            # Without the lock: a cursor may stay open for long, and other moves do not depend on it.
            while awaited := [found for found in self.cleanups.values() if must_wait_for(found.record)]:
                await awaited[0].task
            async with self._turn:
                if not any(must_wait_for(found.record) for found in self.cleanups.values()):
                    return await move()

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    def clean_up(self, record: Mapping[str, Any], *, version: int = 0) -> "asyncio.Task[None]":
        """Finish or undo a move, after all cursors that were opened under an older placement are closed."""
        task = self._start(self._clean_up(record, version))
        self.cleanups[record["_id"]] = Cleanup(record, task)
        return task

    async def _clean_up(self, record: Mapping[str, Any], version: int) -> None:
        await self._states.without_readers_before(version)
        try:
            await self._recoveries[record["kind"]](self, record)
            await self.records.remove(record)
        except CommandError as error:
            self._log.warning(
                "SHARDING",
                "The old copies of moved data could not be removed; the next start tries again",
                "moves",
                move=record["kind"],
                error=str(error),
            )
        finally:
            del self.cleanups[record["_id"]]

    async def recover(self) -> None:
        """Finish or undo the moves that the last run of the cluster has left.

        Removing documents that a shard does not own can wait, because nobody reads them. Which shard has a
        whole collection must be settled before clients connect.
        """
        for record in self.records:
            cleanup = self.clean_up(record)
            if record["kind"] not in self._in_background:
                await cleanup

    async def stop(self) -> None:
        """Cancel everything; the next start finishes or undoes it."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
