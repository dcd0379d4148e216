"""What expires on a running server: pre-images, and documents under TTL indexes.

Both are looked for now and then, by the wall clock, which tests move.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import DatetimeMS, Int64

from tailrace.mongod.server.emulation.fail_points import PRE_IMAGE_TIME
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

if TYPE_CHECKING:
    from tailrace.mongod.server.server import Server

_MILLISECONDS: Final = 1000
_EXPIRED_BEFORE: Final = "imagesExpiredBefore"

Claim: TypeAlias = Callable[[str], AbstractAsyncContextManager[Callable[[bytes], bool]]]
"""Given a namespace, tells which documents are the server's own as long as it is held"""


@dataclass(slots=True)
class ExpiryCounters:
    """What was done since the server started."""

    ttl_passes: int = 0
    ttl_deleted: int = 0
    image_passes: int = 0
    images_removed: int = 0
    image_bytes_removed: int = 0


@asynccontextmanager
async def claim_everything(_ns: str) -> AsyncIterator[Callable[[bytes], bool]]:
    """The claim of a server that shares its documents with nobody."""
    yield lambda _document: True


class ExpiryTask:
    """Removes what is too old; two background jobs of a server."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self.counters = ExpiryCounters()
        self.images_expired_before: int | None = None
        """The date, in milliseconds, before which no pre-image is there any more, in the history either"""
        self.claim: Claim = claim_everything
        """What may be deleted; set by whoever decides which documents are this server's own"""

    def load(self, store: Store) -> None:
        """Read what was known before."""
        with store.snapshot() as reader:
            found = reader.meta(_EXPIRED_BEFORE)
        self.images_expired_before = None if found is None else TIME.unpack(found)[0]

    def register(self) -> None:
        """Have both jobs done again and again."""
        parameters = self._server.parameters
        self._server.background.add(
            "ChangeStreamExpiredPreImagesRemover",
            lambda: float(parameters["expiredChangeStreamPreImageRemovalJobSleepSecs"]),
            self.remove_images,
        )
        self._server.background.add(
            "TTLMonitor", lambda: float(parameters["ttlMonitorSleepSecs"]), self.delete_documents
        )

    async def remove_images(self) -> None:
        """Remove the pre-images that are too old, or whose entries the oplog has lost."""
        server = self._server
        if not server.owns_data:
            return
        seconds = server.cluster_parameters.image_expiry_seconds
        before_date = None if seconds is None else self._now() - seconds * _MILLISECONDS
        self.counters.image_passes += 1
        latest = max(before_date or 0, self.images_expired_before or 0)

        def work(unit: WriteUnit) -> RemovedImages:
            if server.history is not None and latest:
                # The history keeps its copies: that these have expired must not be forgotten.
                unit.put_meta(_EXPIRED_BEFORE, pack_time(latest))
            return remove_expired_images(unit, before_entry=server.store.oldest, before_date=before_date)

        while True:
            removed = await server.store.write(work)
            self.counters.images_removed += removed.number
            self.counters.image_bytes_removed += removed.size
            if removed.number < AT_ONCE:
                break
        self.images_expired_before = latest or None

    async def delete_documents(self) -> None:
        """Delete the documents whose time has come; only a primary does."""
        server = self._server
        if not server.parameters["ttlMonitorEnabled"] or not server.replication.is_primary:
            return
        now = server.wall.milliseconds()
        for rule in expiry_rules(server.store.catalog):
            async with self.claim(rule.ns) as owns:
                while True:
                    work = partial(delete_expired, rule=rule, now=now, owns=owns)
                    deleted = await server.store.write(work)
                    self.counters.ttl_deleted += deleted
                    if deleted < AT_ONCE:
                        break
        self.counters.ttl_passes += 1

    def _now(self) -> int:
        """Milliseconds since 1970; a fail point can say what time it is to be."""
        data = self._server.fail_points.active(PRE_IMAGE_TIME)
        given: Any = None if data is None else data.get("currentTimeForTimeBasedExpiration")
        return int(given) if isinstance(given, DatetimeMS) else self._server.wall.milliseconds()

    def ttl_status(self) -> dict[str, Any]:
        """The section `metrics.ttl` of serverStatus."""
        return {
            "deletedDocuments": Int64(self.counters.ttl_deleted),
            "passes": Int64(self.counters.ttl_passes),
        }

    def image_status(self) -> dict[str, Any]:
        """The section `changeStreamPreImages` of serverStatus."""
        return {
            "purgingJob": {
                "totalPass": Int64(self.counters.image_passes),
                "docsDeleted": Int64(self.counters.images_removed),
                "bytesDeleted": Int64(self.counters.image_bytes_removed),
            }
        }
