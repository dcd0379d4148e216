"""Move ranges away from shards that are being removed, and from the fullest to the emptiest shard.

The balancer moves one range of about a chunk's size, and then decides again. Shards that are being removed
are emptied even if the balancer is off: the client that removes a shard has asked for its data to be moved.
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
from tailrace.mongod.cluster.placement.state import TrackedCollection
from tailrace.mongod.server.admin.logbook import Logbook

_PAUSE_SECONDS: Final = 1.0
_MEGABYTE: Final = 1 << 20


class _Move(NamedTuple):
    ns: str
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    to: str


class Balancer:
    """The background task that moves ranges, one at a time."""

    def __init__(self, moves: DataMoves, log: Logbook) -> None:
        self._moves = moves
        self._placement = moves.placement
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._in_round = asyncio.Lock()

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="balancer")

    async def stop(self) -> None:
        """Stop; a move that is running belongs to `DataMoves`."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def wake(self) -> None:
        """Start the next round now."""
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
        """Move one range if necessary; returns whether one was moved. Rounds do not overlap."""
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
                if await self._move_one_range(collection, is_on=is_on):
                    return True
            return False
        finally:
            progress.is_in_round = False
            progress.rounds += 1

    async def _move_one_range(self, collection: TrackedCollection, *, is_on: bool) -> bool:
        """Move a range of a collection if necessary; a failure is logged and does not stop the round."""
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

    async def _next_move(self, collection: TrackedCollection, *, is_on: bool) -> _Move | None:
        """The range of a collection to move next; None if nothing is out of balance."""
        if collection.is_unsplittable:
            return None  # a client moves it with moveCollection
        found = balancing.violation(self._placement, self._moves.stores, collection)
        if found is None or found.kind is ViolationKind.DRAINING:
            return None if found is None else await asyncio.to_thread(self._choose_range, collection, found)
        takes_part = is_on and self._placement.takes_part_in_balancing(collection.ns)
        # For an imbalance, the donor's size still contains what the last move has not removed yet.
        must_wait = collection.may_have_orphans and found.kind is ViolationKind.IMBALANCE
        if not takes_part or must_wait:
            return None
        return await asyncio.to_thread(self._choose_range, collection, found)

    def _choose_range(self, collection: TrackedCollection, found: Violation) -> _Move | None:
        """A range of the donor with a chunk's size, or half the difference if that is less."""
        if found.part is not None:
            return _Move(collection.ns, *found.part, found.recipient)
        zones = self._placement.zones(collection.ns, collection.key)
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
                if not zones.allows(chunk.min, chunk.max, found.recipient):
                    continue
                end = point_at_size(snapshot, collection.uuid, within, size) or chunk.max
                return _Move(collection.ns, chunk.min, end, found.recipient)
        return None
