"""The balancer: moves ranges from shards that are being removed, and from the fullest to the emptiest.

It moves one range at a time, of about a chunk's size, and looks again. What is being removed is emptied
whether the balancer is on or not: whoever removes a shard has said that its data is to move.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tailrace.errors import CommandError
from tailrace.mongod.cluster.moves import balancing
from tailrace.mongod.cluster.moves.balancing import Violation, ViolationKind
from tailrace.mongod.cluster.moves.migration import move_range
from tailrace.mongod.cluster.moves.moves import DataMoves
from tailrace.mongod.cluster.placement.chunk_splitting import point_at_size
from tailrace.mongod.cluster.placement.key_range import KeyRange
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.server.admin.logbook import Logbook

_PAUSE_SECONDS: Final = 1.0
_MEGABYTE: Final = 1 << 20


class _Move(NamedTuple):
    """A range and where it is to go."""

    ns: str
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    to: str


class Balancer:
    """What a cluster does about its balance, from start to stop."""

    def __init__(self, moves: DataMoves, log: Logbook) -> None:
        self._moves = moves
        self._placement = moves.placement
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._in_round = asyncio.Lock()

    def start(self) -> None:
        """Begin to look again and again."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="balancer")

    async def stop(self) -> None:
        """Look no more; a move that is under way is not this one's."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def wake(self) -> None:
        """Look now."""
        self._wanted.set()

    async def _run(self) -> None:
        while True:
            try:
                while await self.round():
                    pass
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                self._log.error("SHARDING", "The balancer failed", "balancer", error=reason)
            try:
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def round(self) -> bool:
        """Move one range if one is to be moved; whether one was. Rounds come one after the other."""
        async with self._in_round:
            return await self._round()

    async def _round(self) -> bool:
        placement = self._placement
        progress = placement.balancer
        is_on = balancing.is_on(placement)
        if not is_on and not any(shard.is_draining for shard in placement.shards.values()):
            return False
        progress.is_in_round = True
        try:
            for collection in list(placement.collections.values()):
                if await self._improve(collection, is_on=is_on):
                    return True
            return False
        finally:
            progress.is_in_round = False
            progress.rounds += 1

    async def _improve(self, collection: ShardedCollection, *, is_on: bool) -> bool:
        """Move a range of one collection, if need be; one that cannot be moved does not stop the others."""
        move = await self._next_move(collection, is_on=is_on)
        if move is None:
            return False
        try:
            await move_range(self._moves, *move)
        except CommandError as error:
            self._log.warning(
                "SHARDING", "A range could not be moved", "balancer", ns=move.ns, error=str(error)
            )
            return False
        return True

    async def _next_move(self, collection: ShardedCollection, *, is_on: bool) -> _Move | None:
        """What to move of a collection; None if it is well as it is."""
        if collection.is_unsplittable:
            return None  # a client moves it, by moveCollection
        found = balancing.violation(self._placement, self._moves.stores, collection)
        if found is None or found.kind is ViolationKind.DRAINING:
            return None if found is None else await asyncio.to_thread(self._piece, collection, found)
        takes_part = is_on and self._placement.takes_part_in_balancing(collection.ns)
        if not takes_part or collection.may_have_orphans:
            return None  # what is left behind by the last move still counts where it was
        return await asyncio.to_thread(self._piece, collection, found)

    def _piece(self, collection: ShardedCollection, found: Violation) -> _Move | None:
        """A range of the donor, of a chunk's size or of half the difference."""
        size = balancing.chunk_megabytes(self._placement) * _MEGABYTE
        if found.kind is ViolationKind.IMBALANCE:
            size = min(size, found.difference / 2)
        chunks = collection.chunks.of_shard(found.donor)
        with self._moves.stores[found.donor].snapshot() as snapshot:
            stored = snapshot.catalog.by_uuid(collection.uuid)
            for chunk in chunks:
                within = KeyRange.between(collection.key, chunk.min, chunk.max)
                is_empty = stored is None or next(within.records(snapshot, stored), None) is None
                if found.kind is ViolationKind.IMBALANCE and (is_empty or chunk.is_jumbo):
                    continue
                end = point_at_size(snapshot, collection.uuid, within, size) or chunk.max
                return _Move(collection.ns, chunk.min, end, found.recipient)
        return None
