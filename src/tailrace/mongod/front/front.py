"""A server in front of a deployment: any driver reads the deployment's change streams from it.

It reads the source's oplog once for all streams, and the history that a pipeline has built for what the
source's oplog no longer has.
"""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import UsageError, missing_package
from tailrace.log.event_log import EventLog
from tailrace.log.head import HeadLog
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.front.followed import Followed, FollowedSet
from tailrace.mongod.front.followed_cluster import FollowedCluster
from tailrace.mongod.front.front_member import FrontMember, FrontRouter
from tailrace.mongod.front.questions import Questions
from tailrace.mongod.front.tail import COMPONENT
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.member import SharedBySet
from tailrace.mongod.server.replica_set.replication import SetState
from tailrace.mongod.server.server import Server
from tailrace.mongod.store.store import Store
from tailrace.sources.recorded.choice import NOTICE

if TYPE_CHECKING:
    from tailrace.mongod.front.images.image_keeper import ImageKeeper
    from tailrace.mongod.front.images.snapshot_thread import SnapshotThread

_OWN_PARAMETERS: Final = {"writePeriodicNoops": "false", "ttlMonitorEnabled": "false"}
"""Of the store for users and roles, which nobody streams from."""


_IMAGES: Final = "images.sqlite"


class Front(Server):
    def __init__(
        self, source: FrontedDeployment, options: ServerOptions, *, log: Logbook | None = None
    ) -> None:
        own = replace(
            options,
            replica_set=source.set_name,
            server_version=source.presented_version,
            parameters={**_OWN_PARAMETERS, **options.parameters},
        )
        super().__init__(own, log=log)
        self.source = source
        self._questions = Questions()
        self._image_keeper = self._new_image_keeper()
        self._snapshot_thread = self._new_snapshot_thread()
        followed = FollowedCluster if source.is_router else FollowedSet
        self._followed: Followed = followed(source, self._questions, self.log, self._fail)
        if self._image_keeper is not None:
            self._followed.rebuild = self._image_keeper.rebuild

    def _new_image_keeper(self) -> "ImageKeeper | None":
        """What rebuilds images, if it shall; the packages that read a history are imported only then."""
        if not self.options.rebuilds_images:
            return None
        if self.options.history is None:
            raise UsageError("images are rebuilt from a history; name its folder with --history")
        try:
            from tailrace.mongod.front.images.image_keeper import ImageKeeper
        except ImportError as error:
            raise missing_package("a history", error) from None
        return ImageKeeper(self.options.history, self.log)

    def _new_snapshot_thread(self) -> "SnapshotThread | None":
        """What records the documents that were there before the history, if it shall."""
        if not self.options.records_snapshot:
            return None
        if self._image_keeper is None or self.options.history is None:
            raise UsageError("a snapshot is recorded for images that are rebuilt; add --images rebuilt")
        if self.source.is_router:
            raise UsageError("snapshots of a sharded cluster are not recorded; leave out --snapshot")
        from tailrace.mongod.front.images.snapshot_thread import SnapshotThread

        return SnapshotThread(self.options.history, self.source, self.log, self._image_keeper.look_soon)

    async def start(self) -> None:
        try:
            await self._followed.start()
            if self.options.history is not None:
                await asyncio.to_thread(self._followed.oplogs)  # which asks for the source's identity
        except BaseException:
            await self._end()
            raise
        await super().start()
        assert self._data is not None, "the server has started"
        self._data.set_source(self.source.address, self.source.identity if self.options.history else "")
        if self._image_keeper is not None:
            self._image_keeper.start(self.members[0].event_log, self._data.path / _IMAGES)
        if self._snapshot_thread is not None:
            self._snapshot_thread.start()
        self.log.info(
            COMPONENT,
            "Serving the change streams of a deployment",
            "initandlisten",
            address=self.source.address,
            version=self.source.release.version,
            featureCompatibilityVersion=self.source.release.series,
            via=self.source.via.value,
        )
        if self.source.oplog_refusal is not None:
            self.log.warning(
                COMPONENT,
                NOTICE,
                "initandlisten",
                reason=str(self.source.oplog_refusal),
            )

    def _open_log(self, store: Store) -> tuple[EventLog, HeadLog | None]:  # noqa: ARG002 - the source has it
        log = self._followed.event_log
        head = log if isinstance(log, HeadLog) else None
        if self.options.history is None:
            if not self.options.head:
                raise UsageError("without a head streams need a history; name its folder with --history")
            return log, head
        shown = log if self.options.head else None
        self._history = self._open_history(self._followed.oplogs(), self.options.history, shown)
        return self._history.event_log, head

    def _new_member(self, options: ServerOptions, shared: SharedBySet) -> FrontMember:
        # A node without a port: what changes users writes, which clients of this server cannot.
        own = replace(shared, state=SetState(options.replica_set, shared.store.term), members=[])
        keeper = super()._new_member(options, own)
        kind = FrontRouter if self.source.is_router else FrontMember
        member = kind(
            options, shared, self._followed, keeper, wall=self.wall, log=self.log, stop=self.begin_stop
        )
        if self._image_keeper is not None:
            member.images_status = self._images_status
        return member

    def _images_status(self) -> dict[str, Any]:
        assert self._image_keeper is not None
        recording = self._snapshot_thread
        return {
            **self._image_keeper.status(),
            **({} if recording is None else {"snapshot": recording.status()}),
        }

    def _fail(self, error: BaseException) -> None:
        """Stop, because streams cannot go on."""
        self.failure = error
        self.begin_stop()

    async def _end(self) -> None:
        if self._snapshot_thread is not None:
            self._snapshot_thread.stop()
        if self._image_keeper is not None:
            await self._image_keeper.stop()
        await self._followed.stop()
        await super()._end()
        if self._image_keeper is not None:
            self._image_keeper.close()
        self._questions.close()
        self.source.close()
