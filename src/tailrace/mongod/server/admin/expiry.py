"""Expiry on a running server: pre-images, and documents under TTL indexes.

Two background jobs, by the wall clock, which tests move.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Final, TypeAlias

from bson import DatetimeMS

from tailrace.mongod.server.admin.cluster_parameters import ClusterParameters
from tailrace.mongod.server.admin.counters import ExpiryCounters
from tailrace.mongod.server.admin.parameters import Parameters
from tailrace.mongod.server.emulation.fail_points import PRE_IMAGE_TIME, FailPoints
from tailrace.mongod.server.replica_set.replication import Replication
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.expiry import (
    AT_ONCE,
    RemovedImages,
    delete_expired,
    expiry_rules,
    remove_expired_images,
)
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.tables import TIME, pack_time
from tailrace.mongod.store.write_unit import WriteUnit

_MILLISECONDS: Final = 1000
_EXPIRED_BEFORE: Final = "imagesExpiredBefore"

Claim: TypeAlias = Callable[[str], AbstractAsyncContextManager[Callable[[bytes], bool]]]
"""Given a namespace: which of its documents this server owns, while the context manager is active."""


class ImageExpiry:
    """Removes pre-images that are too old, or whose entries are no longer in the oplog."""

    def __init__(
        self,
        store: Store,
        cluster_parameters: ClusterParameters,
        fail_points: FailPoints,
        wall: WallClock,
        counters: ExpiryCounters,
        *,
        has_history: Callable[[], bool],
    ) -> None:
        """With a history, which has copies of the images, the date before which they expired is stored."""
        self._store = store
        self._cluster_parameters = cluster_parameters
        self._fail_points = fail_points
        self._wall = wall
        self._counters = counters
        self._has_history = has_history
        with store.snapshot() as reader:
            found = reader.meta(_EXPIRED_BEFORE)
        self.expired_before: int | None = None if found is None else TIME.unpack(found)[0]
        """All pre-images older than this date, in milliseconds, have expired, in the history too."""

    async def run(self) -> None:
        store = self._store
        seconds = self._cluster_parameters.image_expiry_seconds
        before_date = None if seconds is None else self._now() - seconds * _MILLISECONDS
        self._counters.image_passes += 1
        latest = max(before_date or 0, self.expired_before or 0)

        def work(unit: WriteUnit) -> RemovedImages:
            if latest and self._has_history():
                unit.put_meta(_EXPIRED_BEFORE, pack_time(latest))
            return remove_expired_images(unit, before_entry=store.oldest, before_date=before_date)

        while True:
            removed = await store.write(work)
            self._counters.images_removed += removed.number
            self._counters.image_bytes_removed += removed.size
            if removed.number < AT_ONCE:
                break
        self.expired_before = latest or None

    def _now(self) -> int:
        """Milliseconds since 1970; a fail point can set another date."""
        data = self._fail_points.active(PRE_IMAGE_TIME)
        given: Any = None if data is None else data.get("currentTimeForTimeBasedExpiration")
        return int(given) if isinstance(given, DatetimeMS) else self._wall.milliseconds()


@asynccontextmanager
async def claim_everything(_ns: str) -> AsyncIterator[Callable[[bytes], bool]]:
    """The claim of a server that is no shard."""
    yield lambda _document: True


class TtlMonitor:
    """Deletes documents that have expired by a TTL index; only on a primary."""

    def __init__(
        self,
        store: Store,
        replication: Replication,
        parameters: Parameters,
        wall: WallClock,
        counters: ExpiryCounters,
    ) -> None:
        self._store = store
        self._replication = replication
        self._parameters = parameters
        self._wall = wall
        self._counters = counters
        self.claim: Claim = claim_everything
        """What may be deleted; a cluster sets it for its shards."""

    def pause(self) -> float:
        return float(self._parameters["ttlMonitorSleepSecs"])

    async def run(self) -> None:
        if not self._parameters["ttlMonitorEnabled"] or not self._replication.is_primary:
            return
        now = self._wall.milliseconds()
        for rule in expiry_rules(self._store.catalog):
            async with self.claim(rule.ns) as owns:
                while True:
                    deleted = await self._store.write(partial(delete_expired, rule=rule, now=now, owns=owns))
                    self._counters.ttl_deleted += deleted
                    if deleted < AT_ONCE:
                        break
        self._counters.ttl_passes += 1
