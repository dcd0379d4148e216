"""All moves of data in a cluster: one at a time, finished or undone when a cluster starts again.

A move goes on when the client that asked for it goes away; when the cluster stops, it is left as it is. What
is left on shards that do not own it any more is removed behind it, when the cursors that still read it there
are gone.
"""

import asyncio
from collections.abc import Callable, Container, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves.move_records import MoveRecords
from tailrace.mongod.cluster.placement.changes import Placement

if TYPE_CHECKING:
    from tailrace.mongod.cluster.cluster import Cluster

T = TypeVar("T")

Recovery: TypeAlias = "Callable[[Cluster, Mapping[str, Any]], Coroutine[Any, Any, None]]"
"""Finishes or undoes what a record says"""


@dataclass(frozen=True, slots=True, eq=False)
class Cleanup:
    """What is still to be removed behind a move."""

    record: Mapping[str, Any]
    task: "asyncio.Task[None]"


def recipient(placement: Placement, name: str) -> str:
    """The shard that something is to be moved to; ShardNotFound (70), OperationFailed (96) if it leaves."""
    shard = placement.shard(name)
    if shard.is_draining:
        raise CommandError(
            ErrorCode.OperationFailed, f"nothing can be moved to {shard.name}, which is being removed"
        )
    return shard.name


class DataMoves:
    """The moves of one cluster."""

    def __init__(
        self, cluster: "Cluster", recoveries: Mapping[str, Recovery], in_background: Container[str]
    ) -> None:
        """``recoveries`` are by the kind of a move; those of some kinds can wait while a cluster starts."""
        self._cluster = cluster
        self._recoveries = recoveries
        self._in_background = in_background
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()
        self.cleanups: dict[Any, Cleanup] = {}
        """By the ids of their records"""

    @property
    def records(self) -> MoveRecords:
        """What is written down about them."""
        return MoveRecords(self._cluster.config.store)

    async def run(
        self,
        move: Callable[[], Coroutine[Any, Any, T]],
        *,
        is_behind: Callable[[Mapping[str, Any]], bool] = lambda _record: False,
    ) -> T:
        """Move something when it is its turn; it goes on even if this call is cancelled.

        ``is_behind`` tells by its record whether an earlier move has to be cleaned up before.
        """
        return await asyncio.shield(self._start(self._in_turn(move, is_behind)))

    async def _in_turn(
        self, move: Callable[[], Coroutine[Any, Any, T]], is_behind: Callable[[Mapping[str, Any]], bool]
    ) -> T:
        while True:
            # Not in its turn: a cursor may be open for long, and other moves have nothing to do with it.
            while awaited := [found for found in self.cleanups.values() if is_behind(found.record)]:
                await awaited[0].task
            async with self._turn:
                if not any(is_behind(found.record) for found in self.cleanups.values()):
                    return await move()

    def _start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda task: task.cancelled() or task.exception())
        return task

    def clean_up(self, record: Mapping[str, Any], *, version: int = 0) -> "asyncio.Task[None]":
        """Finish or undo what a record says, behind cursors that began under an older placement."""
        task = self._start(self._clean_up(record, version))
        self.cleanups[record["_id"]] = Cleanup(record, task)
        return task

    async def _clean_up(self, record: Mapping[str, Any], version: int) -> None:
        cluster = self._cluster
        await cluster.states.without_readers_before(version)
        try:
            await self._recoveries[record["kind"]](cluster, record)
            await self.records.remove(record)
        except CommandError as error:
            cluster.log.warning(
                "SHARDING",
                "What a move has left behind could not be removed; the next start tries again",
                "moves",
                move=record["kind"],
                error=str(error),
            )
        finally:
            del self.cleanups[record["_id"]]

    async def recover(self) -> None:
        """Finish or undo what the last run of the cluster has left.

        Documents that a shard has and does not own are nobody's business, and go later; who has a whole
        collection is clear before anybody asks for it.
        """
        for record in self.records:
            cleanup = self.clean_up(record)
            if record["kind"] not in self._in_background:
                await cleanup

    async def stop(self) -> None:
        """Leave everything as it is."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
