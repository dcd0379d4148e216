"""The node that clients connect to: a replica set of one member, or a router, with the source's streams.

It has a store of its own, for its users and roles.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, TailraceError
from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.front.commands import FRONT_COMMANDS, FrontContext
from tailrace.mongod.front.followed import Followed
from tailrace.mongod.front.source_users import REFRESH_SECONDS, SourceUsers
from tailrace.mongod.front.tail import COMPONENT
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.net.replies import ReplyTail
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.replica_set.member import Member, SharedBySet
from tailrace.mongod.store.clock import WallClock

_RELEASE_SECONDS: Final = 10.0
"""How often the source is asked for its release."""


class FrontMember(Member):
    kind_of_context = FrontContext

    def __init__(
        self,
        options: ServerOptions,
        shared: SharedBySet,
        followed: Followed,
        keeper: Member,
        *,
        wall: WallClock,
        log: Logbook,
        stop: Callable[[], object],
    ) -> None:
        """``followed`` has the source's events; ``keeper`` changes the users and roles of this server."""
        super().__init__(options, shared, wall=wall, log=log, commands=FRONT_COMMANDS, stop=stop)
        self.source = followed.source
        self._followed = followed
        self._keeper = keeper
        self.images_status: Callable[[], dict[str, Any]] | None = None
        """What serverStatus shows of images, if they are rebuilt."""
        self.times = FrontTimes(followed)
        self.source_users = SourceUsers(self.source, self.access, log)
        self.background.add("SourceUsers", lambda: REFRESH_SECONDS, self.source_users.refresh)
        self.background.add("SourceRelease", lambda: _RELEASE_SECONDS, self._look_at_release)
        self._present()

    def _present(self) -> None:
        """Present the release that the source has now."""
        self.release = Release.parse(self.source.presented_version)
        if self.source.release.compatibility != self.release.stream.compatibility:
            self.release = replace(self.release, stream=self.source.release)

    async def _look_at_release(self) -> None:
        """Notice an upgrade of the source; streams that are opened later are those of its new release."""
        try:
            found = await asyncio.to_thread(self.source.read_release)
        except TailraceError:
            return  # it is away, which the tail reports
        before = self.source.release
        if found != before:
            self.source.release = found
            self._present()
            self.replication.announce()
            self.log.info(
                COMPONENT,
                "The source has another release",
                "tail",
                version=found.version,
                featureCompatibilityVersion=found.series,
                before=before.version,
            )

    @property
    def keeper(self) -> Member:
        return self._keeper

    async def catch_up(self) -> None:
        """Wait until everything was delivered that has happened at the source until now."""
        await self._followed.reach(self._followed.questions.ask(self.source.last_applied))

    def collection_type(self, ns: str) -> str | None:
        try:
            return self._followed.questions.ask(self.source.collection_type, ns)
        except CommandError as error:
            # The right to list collections is not needed for streams, except to refuse views.
            if error.code != ErrorCode.Unauthorized:
                raise
            return None

    def source_status(self) -> dict[str, Any]:
        release = self.source.release
        return {
            "address": self.source.address,
            "version": release.version,
            "featureCompatibilityVersion": release.series,
            "via": self.source.via.value,
            "away": self._followed.is_away,
            "through": to_timestamp(self._followed.through),
            **({} if self.images_status is None else {"images": self.images_status()}),
        }

    def last_write_time(self) -> int:
        """The cluster time of the newest entry that was delivered."""
        return self._followed.through

    def last_write_date(self) -> int:
        return (self._followed.through >> 32) * 1000


class FrontRouter(FrontMember):
    """The node in front of a cluster: clients take it for the only router."""

    is_router = True

    @property
    def is_replicated(self) -> bool:
        """Always: the shards have oplogs."""
        return True


class FrontTimes:
    """The cluster time of the source, as far as its entries were delivered; see `NodeTimes`."""

    def __init__(self, followed: Followed) -> None:
        self._followed = followed
        self._tail = ReplyTail()

    def hear(self, time: int) -> None:
        """Do nothing: the clock is the source's."""

    async def wait_for(self, wanted: int) -> None:
        await self._followed.reach(wanted)

    def reply_tail(self) -> bytes:
        time = self._followed.through
        return self._tail.encoded(time, time)
