"""Oplogs of a running deployment, read through PyMongo.

A replica set has one oplog; behind a router every shard has its own, and is asked directly. Entries are read
as raw batches from the primary, majority committed and not older than the interval wants: a primary that was
deposed and does not know it cannot answer with a hole.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.events.oplog_entry import OplogEntry, parse_entry
from tailrace.events.oplog_start import is_first_entry
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stages.lookups import Lookups
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.batch_boundaries import COMMITS, Commit
from tailrace.sources.conditions import EVERYTHING, EntryCondition
from tailrace.sources.deployments.clients import Client, client_of, close_clients, shard_uri
from tailrace.sources.deployments.driver_errors import driver_errors, hosts_of
from tailrace.sources.deployments.lookups import CurrentDocuments, StoredPreImages
from tailrace.sources.deployments.members import Members
from tailrace.sources.deployments.sampling import cuts_by_rate
from tailrace.sources.deployments.shard_list import ShardList
from tailrace.sources.deployments.torn_transactions import torn_at
from tailrace.sources.raw_documents import documents_of, raw_batches, split_documents
from tailrace.sources.source import UNLIMITED, OplogSource

_PATIENCE_MS: Final = 2000
"""How long a shard may take to get to the time of another one"""
_SAMPLED_FIRST: Final = 16
_SAMPLED_THEN: Final = 484
_SAMPLED_BYTES: Final = 1 << 20
"""After so many entries or bytes the others are taken to be like them"""
_SAMPLES_PER_PART: Final = 8
_MOST_SAMPLES: Final = 64
_MOST_SKIPPED: Final = (1 << 31) - 1


class DeploymentSource(OplogSource):
    """The oplogs behind a connection string, or behind one for each shard.

    Behind a router shards come and go. Whoever asks how far everything is promised hears of them in time: no
    time is promised before the router's answer is as new as that time.
    """

    def __init__(self, uri: str | Mapping[str, str]) -> None:
        self._owner = uuid4().hex
        self._uri = uri if isinstance(uri, str) else next(iter(uri.values()))
        self._fixed: dict[str, str] = dict(uri) if isinstance(uri, Mapping) else {}
        self._is_cluster = isinstance(uri, Mapping)
        self._is_routed = False
        self._list = ShardList()
        self._identity = ""
        self._newest_promise = 0
        if not self._fixed:
            self._discover()

    def _discover(self) -> None:
        with driver_errors(self._uri):
            hello = self._client(self._uri).admin.command("hello")
            if hello.get("msg") == "isdbgrid":
                self._is_cluster = self._is_routed = True
                self._refresh()
            elif "setName" in hello:
                self._fixed = {"": self._uri}
            else:
                raise UsageError(
                    f"{hosts_of(self._uri)} is a standalone server, which has no oplog; "
                    "start it as a replica set"
                )

    # -- shards that come and go --------------------------------------------------------------------------

    def _refresh(self, clock: Mapping[str, Any] | None = None, time: int | None = None) -> bool:
        """Read the list of shards, as new as a cluster time; whether there are new ones."""
        router = self._client(self._uri)
        with driver_errors(self._uri):
            has_new = self._list.refresh(router, self._majority_time, clock=clock, time=time)
        if self._list.unknown_through > self._newest_promise > 0:
            raise history_lost(self._newest_promise)
        return has_new

    def membership(self) -> dict[str, Any]:
        """See `OplogSource`; only a router's shards change."""
        return self._list.members.to_document()

    def remember(self, membership: Mapping[str, Any]) -> None:
        """See `OplogSource`; what the router lists is newer than what an offset says of the same shard."""
        if self._is_routed and any(name not in self._list.members for name in membership):
            self._list.members = self._list.members.with_all(Members.of(membership))
            self._refresh()

    def members_for(self, membership: Mapping[str, Any], after: int) -> Mapping[str, Any]:
        """See `OplogSource`; shards may have other addresses by now."""
        if not self._is_routed or not membership:
            return membership
        self._refresh()
        planned = Members.of(membership)
        known = self._list.members
        hosts = {name: (known if name in known else planned)[name].host for name in planned}
        members = {name: replace(planned[name], host=hosts[name]) for name in planned.behind(after)}
        return Members(members).to_document()

    def having(self, members: Mapping[str, Any]) -> "DeploymentSource":
        """See `OplogSource`."""
        if not self._is_routed or not members:
            return self
        source = copy(self)
        source._list = ShardList(Members.of(members))
        return source

    # -- what it is ---------------------------------------------------------------------------------------

    def shards(self) -> tuple[str, ...]:
        """As the router lists them, and those that have left; or one without a name."""
        return tuple(self._list.members) if self._is_routed else tuple(self._fixed)

    def _present(self) -> list[str]:
        return self._list.members.present() if self._is_routed else list(self._fixed)

    def _behind(self, after: int) -> list[str]:
        return list(self._list.members.behind(after)) if self._is_routed else list(self._fixed)

    def identity(self) -> str:
        """The id of the replica set or the cluster, which both keep for life."""
        if not self._identity:
            with driver_errors(self._uri):
                self._identity = self._cluster_id() if self._is_cluster else self._set_id("")
        return self._identity

    def _cluster_id(self) -> str:
        if not self._is_routed:
            return "+".join(self._set_id(shard) for shard in self._fixed)
        version = self._client(self._uri).config.version.find_one()
        if version is None or "clusterId" not in version:
            raise UsageError(f"the router at {hosts_of(self._uri)} does not know its cluster's id")
        return str(version["clusterId"])

    def _set_id(self, shard: str) -> str:
        config = self._shard_client(shard).admin.command("replSetGetConfig")["config"]
        return str(config["settings"]["replicaSetId"])

    # -- times --------------------------------------------------------------------------------------------

    def oldest(self, shard: str | None = None) -> int:
        """See `OplogSource`; what shards told that are gone, and were not read in time, is gone with them."""
        if shard is not None:
            return self._oldest_of(shard)
        unknown = self._list.unknown_through + 1 if self._list.unknown_through else 0
        return max(unknown, *(self._oldest_of(name) for name in self._present()))

    def _oldest_of(self, shard: str) -> int:
        entry = self._first_of(shard)
        return 0 if entry is None or is_first_entry(entry) else entry.ts

    def _first_of(self, shard: str) -> OplogEntry | None:
        with driver_errors(self._uri_of(shard)):
            for raw in documents_of(self._oplog(shard).find_raw_batches({}, limit=1)):
                return parse_entry(raw)
        return None

    def promised(self) -> int:
        """The newest majority committed time of all shards, once each has got there; see `_reach`."""
        while True:
            hellos = self._hellos()
            newest = max(map(_time_of, hellos.values()))
            told = max(hellos.values(), key=_clock_of)
            if not self._is_routed or not self._list.has_gone_on(newest, self._router_time()):
                break
            if not self._refresh(told["$clusterTime"], newest):
                break
        if newest > self._newest_promise:
            behind = [name for name in self._present() if _time_of(hellos[name]) < newest]
            promise = min([newest, *(self._reach(name, newest, told) for name in behind)])
            if len(hellos) > 1:
                promise = self._whole(promise)
            self._newest_promise = max(self._newest_promise, promise)
        return self._newest_promise

    def _hellos(self) -> dict[str, dict[str, Any]]:
        """What each shard says of itself."""
        known = self._list.members
        try:
            return {shard: self._hello(shard) for shard in self._present()}
        except UsageError:
            # It may have another address now, or have left.
            if self._is_routed:
                self._refresh()
            if known == self._list.members:
                raise
            return {shard: self._hello(shard) for shard in self._present()}

    def _router_time(self) -> int:
        """What the clock of the cluster shows; shards that nobody here knows yet may have moved it on."""
        with driver_errors(self._uri):
            return _clock_of(self._client(self._uri).admin.command("hello"))

    def _hello(self, shard: str) -> dict[str, Any]:
        with driver_errors(self._uri_of(shard)):
            return self._shard_client(shard).admin.command("hello")

    def _majority_time(self, shard: str) -> int:
        return _time_of(self._hello(shard))

    def _reach(self, shard: str, time: int, told: Mapping[str, Any]) -> int:
        """What a shard promises that was asked to get to a cluster time.

        A read behind that time is answered when everything before it is there. A shard that has nothing to
        write need not keep the others waiting: MongoDB's writes a no-op entry, Tailrace's knows its clock.
        """
        client = self._shard_client(shard)
        with driver_errors(self._uri_of(shard)), client.start_session(causal_consistency=True) as session:
            session.advance_cluster_time(told["$clusterTime"])
            session.advance_operation_time(to_timestamp(time))
            oplog = self._oplog(shard, majority=True)
            try:
                oplog.find_one({}, {"ts": 1}, session=session, max_time_ms=_PATIENCE_MS)
            except OperationFailure:
                return self._majority_time(shard)  # it is behind, and the others have to wait for it
        return time

    def _whole(self, time: int) -> int:
        """The last time up to this one that divides no transaction, or the last promise."""
        clients = [self._shard_client(shard) for shard in self._present()]
        while time > self._newest_promise:
            with driver_errors(self._uri):
                torn = torn_at(time, clients)
            if not torn:
                return time
            time = min(torn) - 1
        return self._newest_promise

    def commits(self, after: int, through: int) -> list[Commit]:
        """See `OplogSource`; the shards look for them."""
        found = []
        for shard in self._behind(after):
            query = _times(after, through) | COMMITS.query() | {"o.commitTimestamp": {"$exists": True}}
            with driver_errors(self._uri_of(shard)):
                for entry in self._oplog(shard).find(query, {"ts": 1, "o.commitTimestamp": 1}):
                    decided = from_timestamp(entry["o"]["commitTimestamp"])
                    found.append(Commit(decided, from_timestamp(entry["ts"])))
        return found

    # -- entries ------------------------------------------------------------------------------------------

    def entries(
        self, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
    ) -> Iterator[Sequence[bytes]]:
        """See `OplogSource`."""
        through = self.told_through(shard, through)
        if self._is_routed:
            after = max(after, self._list.members[shard].joined)
        if through <= after:
            return
        position = after
        with (
            driver_errors(self._uri_of(shard)),
            self._shard_client(shard).start_session(causal_consistency=True) as session,
        ):
            session.advance_operation_time(to_timestamp(through))
            oplog = self._oplog(shard, majority=True)
            query = _times(after, through) | condition.query()
            with oplog.find_raw_batches(query, session=session) as cursor:
                for batch in raw_batches(cursor):
                    # Asked after the batch was read: what is there now was there then.
                    if self._oldest_of(shard) > position + 1:
                        raise history_lost(position)
                    entries = split_documents(batch)
                    if entries:
                        position = entry_time(entries[-1])
                        yield entries
        if position == after and self._oldest_of(shard) > after + 1:
            raise history_lost(after)

    def told_through(self, shard: str, through: int) -> int:
        """See `OplogSource`."""
        left = self._list.members[shard].left if self._is_routed else None
        return through if left is None else min(through, left)

    def entry(self, shard: str, ts: int, term: int) -> bytes | None:
        """See `OplogSource`."""
        with driver_errors(self._uri_of(shard)):
            found = self._oplog(shard).find_raw_batches({"ts": to_timestamp(ts)}, limit=1)
            for raw in documents_of(found):
                return raw if parse_entry(raw).term == term else None
        return None

    def lookups(self, shard: str, after: int, through: int) -> Lookups:
        """Pre-images from the shard, current documents through the router."""
        images = self._shard_client(shard).config["system.preimages"]
        current = CurrentDocuments(self._client(self._uri) if self._is_routed else self._shard_client(shard))

        def find_entry(ts: int, term: int) -> bytes | None:
            return self.entry(shard, ts, term)

        return Lookups(find_entry, StoredPreImages(images, after, through).find, current.find)

    # -- planning -----------------------------------------------------------------------------------------

    def split(self, after: int, through: int, parts: int) -> list[int]:
        """See `OplogSource`; how much was logged when is estimated from some of the seconds."""
        if parts < 2 or through <= after:
            return []
        samples = min(parts * _SAMPLES_PER_PART, _MOST_SAMPLES)
        shards = self._behind(after)
        first = max(after, min(entry.ts for shard in shards if (entry := self._first_of(shard))) - 1)
        ask = [partial(self._newest_up_to, shard) for shard in shards]
        return cuts_by_rate(first, through, parts, samples, ask)

    def _newest_up_to(self, shard: str, time: int) -> int | None:
        """The time of a shard's newest entry up to a cluster time."""
        with driver_errors(self._uri_of(shard)):
            found = self._oplog(shard).find_one(
                {"ts": {"$lte": to_timestamp(time)}}, {"ts": 1}, sort=[("$natural", -1)]
            )
        return None if found is None else from_timestamp(found["ts"])

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `OplogSource`; the limits are shared out evenly among the shards."""
        limit = through
        if max_entries >= UNLIMITED and max_bytes >= UNLIMITED:
            return limit
        shards = self._behind(after)
        share, room = max(max_entries // len(shards), 1), max_bytes // len(shards)
        for shard in shards:
            with driver_errors(self._uri_of(shard)):
                limit = min(limit, self._limited(shard, after, limit, share, room))
        return limit

    def _limited(self, shard: str, after: int, through: int, share: int, room: int) -> int:
        oplog = self._oplog(shard)
        count = size = 0
        position = after
        # Few at first: entries may be large, and these are read once more by the tasks.
        for wanted in (_SAMPLED_FIRST, _SAMPLED_THEN):
            before = count
            for raw in documents_of(oplog.find_raw_batches(_times(position, through), limit=wanted)):
                position = entry_time(raw)
                size += len(raw)
                if count and (count >= share or size > room):
                    return position - 1
                count += 1
            if count - before < wanted:
                return through
            if size > _SAMPLED_BYTES:
                break
        share = min(share, max(room * count // size, count))
        if share > _MOST_SKIPPED:
            return through
        beyond = list(oplog.find(_times(after, through), {"ts": 1}).sort("$natural", 1).skip(share).limit(1))
        return from_timestamp(beyond[0]["ts"]) - 1 if beyond else through

    # -- connections --------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the connections of this process."""
        close_clients(self._owner)

    def _client(self, uri: str) -> Client:
        return client_of(self._owner, uri)

    def _uri_of(self, shard: str) -> str:
        return shard_uri(self._uri, self._list.members[shard].host) if self._is_routed else self._fixed[shard]

    def _shard_client(self, shard: str) -> Client:
        return self._client(self._uri_of(shard))

    def _oplog(self, shard: str, *, majority: bool = False) -> Collection[dict[str, Any]]:
        return self._shard_client(shard).local.get_collection(
            "oplog.rs",
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority") if majority else None,
        )


def _times(after: int, through: int) -> dict[str, Any]:
    return {"ts": {"$gt": to_timestamp(after), "$lte": to_timestamp(through)}}


def _time_of(hello: Mapping[str, Any]) -> int:
    return from_timestamp(hello["lastWrite"]["majorityOpTime"]["ts"])


def _clock_of(hello: Mapping[str, Any]) -> int:
    return from_timestamp(hello["$clusterTime"]["clusterTime"])
