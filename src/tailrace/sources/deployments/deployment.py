"""The oplogs of a running deployment as a source.

A replica set has one oplog. Of a cluster every shard has its own and is asked directly (`shard_oplog.py`);
the router is asked which shards there are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self, TypeVar

from tailrace.errors import UsageError
from tailrace.events.cluster_time import BEGINNING, ClusterTime
from tailrace.events.entry_mark import EntryMark
from tailrace.events.promise import Promise
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stream_release import StreamRelease
from tailrace.sources.batch_boundaries import Commit, commits_of, torn_at
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, client_of, close_clients, shard_uri
from tailrace.sources.deployments.collections import CollectionReader
from tailrace.sources.deployments.current_documents import CurrentDocuments
from tailrace.sources.deployments.deployment_volume import DeploymentVolume, MeasuredInterval
from tailrace.sources.deployments.driver_errors import driver_errors, hosts_of
from tailrace.sources.deployments.members import Members
from tailrace.sources.deployments.shard_list import ShardList
from tailrace.sources.deployments.shard_oplog import Hello, ShardOplog, clock_time, majority_time
from tailrace.sources.deployments.stored_pre_images import StoredPreImages
from tailrace.sources.in_parallel import asked
from tailrace.sources.process_cache import Owner
from tailrace.sources.source import OplogSource, Volume

T = TypeVar("T")
_FEW_SHARDS: Final = 4
"""A task can hold a whole batch of each, which is up to 16 MB."""
_HELD_BYTES: Final = 64 << 20
"""About how much a task holds of all shards before it can merge them."""


class DeploymentSource(OplogSource):
    """The oplogs that a connection string leads to, or one for each shard.

    The shards of a router join and leave. `promised` takes them into account in time: it promises no time
    before the router's list of shards is as new as that time.
    """

    def __init__(self, uri: str | Mapping[str, str]) -> None:
        self._owner = Owner()
        self._uri = uri if isinstance(uri, str) else next(iter(uri.values()))
        self._fixed: dict[str, str] = dict(uri) if isinstance(uri, Mapping) else {}
        self._is_cluster = isinstance(uri, Mapping)
        self._is_routed = False
        self._list = ShardList()
        self._identity = ""
        self._newest_promise = Promise(BEGINNING)
        if not self._fixed:
            self._discover()

    def _discover(self) -> None:
        hello = self._hello()
        if hello.get("msg") == "isdbgrid":
            self._is_cluster = self._is_routed = True
            self._refresh()
        elif "setName" in hello:
            self._fixed = {"": self._uri}
        else:
            raise UsageError(
                f"{hosts_of(self._uri)} is a standalone server, which has no oplog; start it as a replica set"
            )

    # -- shards that join and leave -----------------------------------------------------------------------

    def _refresh(self, clock: Mapping[str, Any] | None = None, time: int | None = None) -> bool:
        """Read the list of shards, at least as new as a cluster time; return whether there are new ones."""
        router = self._client(self._uri)
        with driver_errors(self._uri, rights.CLUSTER):
            has_new = self._list.refresh(
                router, lambda name: self._oplog(name).majority_time(), clock=clock, time=time
            )
        if self._list.unknown_through > self._newest_promise > 0:
            raise history_lost(self._newest_promise)
        return has_new

    def membership(self) -> dict[str, Any]:
        return self._list.members.to_document()

    def remember(self, membership: Mapping[str, Any]) -> None:
        """See `ShardMembership`; the router's list is newer than what an offset has of the same shard."""
        if self._is_routed and any(name not in self._list.members for name in membership):
            self._list.members = self._list.members.with_all(Members.of(membership))
            self._refresh()

    def members_for(self, membership: Mapping[str, Any], after: int) -> Mapping[str, Any]:
        """See `ShardMembership`; shards may have other addresses by now."""
        if not self._is_routed or not membership:
            return membership
        self._refresh()
        planned = Members.of(membership)
        known = self._list.members
        hosts = {name: (known if name in known else planned)[name].host for name in planned}
        members = {
            name: replace(planned[name], host=hosts[name]) for name in planned.with_entries_after(after)
        }
        return Members(members).to_document()

    def having(self, members: Mapping[str, Any]) -> Self:
        if not self._is_routed or not members:
            return self
        source = copy(self)
        source._list = ShardList(Members.of(members))
        return source

    # -- identity -----------------------------------------------------------------------------------------

    def shards(self) -> tuple[str, ...]:
        """Return the shards that the router lists, and those that have left; or one without a name."""
        return tuple(self._list.members) if self._is_routed else tuple(self._fixed)

    def _present(self) -> list[str]:
        return self._list.members.present() if self._is_routed else list(self._fixed)

    def _with_entries_after(self, after: int) -> list[str]:
        return list(self._list.members.with_entries_after(after)) if self._is_routed else list(self._fixed)

    def identity(self) -> str:
        """Return the id of the replica set or the cluster, which never changes."""
        if not self._identity:
            self._identity = self._cluster_id() if self._is_cluster else self._oplog("").replica_set_id()
        return self._identity

    def _cluster_id(self) -> str:
        if not self._is_routed:
            return "+".join(self._oplog(shard).replica_set_id() for shard in self._fixed)
        with driver_errors(self._uri, rights.CLUSTER):
            version = self._client(self._uri).config.version.find_one()
        if version is None or "clusterId" not in version:
            raise UsageError(f"the router at {hosts_of(self._uri)} does not know its cluster's id")
        return str(version["clusterId"])

    def release(self) -> StreamRelease:
        """Return the release of the first shard's servers; all others have the same or are being upgraded."""
        return self._oplog(self._present()[0]).release()

    # -- times --------------------------------------------------------------------------------------------

    def oldest(self, shard: str | None = None) -> ClusterTime:
        """See `OplogSource`; the entries of shards that left before they were read are lost."""
        if shard is not None:
            return self._oplog(shard).oldest()
        through = self._list.unknown_through
        unknown = ClusterTime(through + 1) if through else BEGINNING
        return max(unknown, *self.oldest_of(self._present()).values())

    def oldest_of(self, shards: Iterable[str]) -> dict[str, ClusterTime]:
        names = list(shards)
        return dict(zip(names, asked(lambda name: self._oplog(name).oldest(), names), strict=True))

    def promised(self) -> Promise:
        """Return the newest majority committed time of all shards, after each has reached it."""
        while True:
            hellos = self._hellos()
            newest = max(map(majority_time, hellos.values()))
            latest = max(hellos.values(), key=clock_time)
            # A shard that is not known here yet may have advanced the cluster's clock.
            if not self._is_routed or not self._list.may_have_changed(newest, clock_time(self._hello())):
                break
            if not self._refresh(latest["$clusterTime"], newest):
                break
        if newest > self._newest_promise:
            late = [name for name in self._present() if majority_time(hellos[name]) < newest]
            reached = asked(lambda name: self._oplog(name).reach(newest, latest["$clusterTime"]), late)
            promise = min([newest, *reached])
            if len(hellos) > 1:
                promise = self._whole(promise)
            self._newest_promise = max(self._newest_promise, Promise(ClusterTime(promise)))
        return self._newest_promise

    def _hello(self) -> Hello:
        with driver_errors(self._uri, rights.NONE):
            return self._client(self._uri).admin.command("hello")

    def _hellos(self) -> dict[str, Hello]:
        def ask() -> dict[str, Hello]:
            shards = self._present()
            return dict(zip(shards, asked(lambda name: self._oplog(name).hello(), shards), strict=True))

        return self._again(ask)

    def _again(self, ask: Callable[[], T]) -> T:
        """Ask shards; again if one cannot be reached that has another address now, or has left."""
        known = self._list.members
        try:
            return ask()
        except UsageError:
            if self._is_routed:
                self._refresh()
            if known == self._list.members:
                raise
            return ask()

    def _whole(self, time: int) -> int:
        """The last time up to this one that divides no transaction, or the last promise."""
        oplogs = [self._oplog(shard) for shard in self._present()]
        while time > self._newest_promise:
            torn = torn_at(time, oplogs)
            if not torn:
                return time
            time = min(torn) - 1
        return self._newest_promise

    def commits(self, after: int, through: int) -> list[Commit]:
        intervals = self._intervals(after, through)
        found = asked(lambda shard: commits_of(shard.oplog, shard.after, shard.through), intervals)
        return [commit for commits in found for commit in commits]

    def has_diverged(self, shard: str, mark: EntryMark) -> bool:
        """See `OplogSource`; a shard that has left is not asked."""
        return self._again(lambda: shard in self._present() and self._oplog(shard).has_diverged(mark))

    # -- entries ------------------------------------------------------------------------------------------

    def entries(
        self, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
    ) -> Iterator[Sequence[bytes]]:
        through = self.shard_end(shard, through)
        if self._is_routed:
            after = max(after, self._list.members[shard].joined)
        if through <= after:
            return iter(())
        shards = len(self.shards())
        batch_bytes = _HELD_BYTES // shards if shards > _FEW_SHARDS else None
        return self._oplog(shard).entries(after, through, condition, batch_bytes)

    def shard_end(self, shard: str, through: int) -> int:
        left = self._list.members[shard].left if self._is_routed else None
        return through if left is None else min(through, left)

    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        """Return look-ups of pre-images on the shard, and of current documents through the router."""
        oplog = self._oplog(shard)
        images = StoredPreImages(oplog.client, oplog.uri, after, through)
        where = (self._client(self._uri), self._uri) if self._is_routed else (oplog.client, oplog.uri)
        current = CurrentDocuments(*where, through)
        return Lookups(partial(oplog.entry, through), images.find, current.find)

    @property
    def volume(self) -> Volume:
        return DeploymentVolume(self._intervals)

    def _intervals(self, after: int, through: int) -> list[MeasuredInterval]:
        return [
            MeasuredInterval(self._oplog(shard), after, self.shard_end(shard, through))
            for shard in self._with_entries_after(after)
        ]

    @property
    def collections(self) -> CollectionReader:
        """Reads documents: through the router, or from the member that the read preference selects."""
        if self._is_routed:
            return CollectionReader(self._client(self._uri), self._uri)
        if self._is_cluster:
            raise UsageError(
                "the documents of a cluster are read through its router; name the router as the source"
            )
        member = self._oplog("").selected()
        return CollectionReader(member.client, member.uri)

    @property
    def is_routed(self) -> bool:
        """Whether this is the router of a cluster."""
        return self._is_routed

    @property
    def entrance(self) -> ShardOplog:
        """The servers of the connection string: the replica set, or the router, which has no oplog."""
        return ShardOplog(self._client(self._uri), self._uri, self._owner)

    # -- connections --------------------------------------------------------------------------------------

    def close(self) -> None:
        close_clients(self._owner)

    def _client(self, uri: str) -> Client:
        return client_of(self._owner, uri)

    def _oplog(self, shard: str) -> ShardOplog:
        uri = shard_uri(self._uri, self._list.members[shard].host) if self._is_routed else self._fixed[shard]
        return ShardOplog(self._client(uri), uri, self._owner)
