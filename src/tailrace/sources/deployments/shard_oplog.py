"""The oplog of one shard, read through PyMongo from the member that the URI's read preference selects.

Entries of an interval are read as raw batches, majority committed and at least as new as the interval's end:
a primary that was deposed and does not know it, or a secondary that is late, cannot answer with a gap.
Members truncate their oplogs independently. So what belongs together is asked of one member.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pymongo import CursorType, ReadPreference
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Primary

from tailrace.events.cluster_time import BEGINNING, ClusterTime, from_timestamp, to_timestamp
from tailrace.events.entry_mark import EntryMark
from tailrace.events.oplog_entry import OplogEntry, is_first_entry, parse_entry
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stream_release import StreamRelease
from tailrace.lake.bulk.raw_entries import RawEntries
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.archives.file_pieces import split
from tailrace.sources.conditions import EntryCondition, times_between
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import (
    Client,
    client_of,
    documents_of,
    member_uri,
    raw_batches,
    session_at,
)
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.deployments.measures import IntervalMeasures
from tailrace.sources.deployments.raw_replies import ReplyCursor
from tailrace.sources.process_cache import Owner
from tailrace.sources.raw_documents import split_documents

Hello = dict[str, Any]

_REACH_MS: Final = 2000
"""How long a shard may take to reach the time of another one."""
_ELECTION_SECONDS: Final = 15.0
"""Longer than a primary that was cut off takes to step down, which is 10 seconds by default."""
_POLL_SECONDS: Final = 0.1
_AWAIT_MS: Final = 500
"""How long a member waits for new entries before it answers that there are none."""
_FIRST_BATCH: Final = 16
"""Entries of a first batch, which show how large the others may be."""


class ShardOplog:
    """Errors of the driver are raised as those of `driver_errors`."""

    def __init__(self, client: Client, uri: str, owner: Owner) -> None:
        self.client = client
        self.uri = uri
        self._owner = owner

    def selected(self) -> "ShardOplog":
        """Return the oplog of one member that the read preference selects; of the primary, this one."""
        if isinstance(self.client.read_preference, Primary) or "directconnection=true" in self.uri.lower():
            return self
        uri = member_uri(self.uri, self.hello()["me"])
        return ShardOplog(client_of(self._owner, uri), uri, self._owner)

    # -- times --------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        with driver_errors(self.uri, rights.NONE):
            return self.client.admin.command("hello", read_preference=self.client.read_preference)

    def majority_time(self) -> ClusterTime:
        return majority_time(self.hello())

    def applied_time(self) -> ClusterTime:
        """Return the time of the member's newest entry, majority committed or not."""
        return from_timestamp(self.hello()["lastWrite"]["opTime"]["ts"])

    def replica_set_id(self) -> str:
        with driver_errors(self.uri, rights.REPLICA_SET_CONFIG):
            config = self.client.admin.command("replSetGetConfig")["config"]
        return str(config["settings"]["replicaSetId"])

    def release(self) -> StreamRelease:
        """Return the release of the servers, by their binary and their feature compatibility version."""
        name = "featureCompatibilityVersion"
        compatibility: str | None = None
        with driver_errors(self.uri, rights.NONE):
            version = self.client.admin.command("buildInfo")["version"]
            # Few users have the right to read it, and it differs only while a deployment is upgraded.
            with suppress(OperationFailure):
                compatibility = self.client.admin.command({"getParameter": 1, name: 1})[name]["version"]
        return StreamRelease.of_server(version, compatibility)

    def first(self) -> OplogEntry | None:
        with driver_errors(self.uri, rights.OPLOG):
            for raw in documents_of(self._oplog().find_raw_batches({}, limit=1)):
                return parse_entry(raw)
        return None

    def newest(self) -> bytes | None:
        """Return the newest majority committed entry."""
        with driver_errors(self.uri, rights.OPLOG):
            oplog = self._oplog(majority=True)
            for raw in documents_of(oplog.find_raw_batches({}, sort=[("$natural", -1)], limit=1)):
                return raw
        return None

    def oldest(self) -> ClusterTime:
        entry = self.first()
        return BEGINNING if entry is None or is_first_entry(entry) else ClusterTime(entry.ts)

    def reach(self, to: int, clock: Mapping[str, Any]) -> int:
        """Ask the shard to reach a cluster time; return what it promises then.

        A read after that time is answered when everything before it is there. A shard that has nothing to
        write does not make the others wait: MongoDB's writes a no-op entry, Tailrace's knows its clock.
        """
        with (
            driver_errors(self.uri, rights.OPLOG),
            session_at(self.client, to) as session,
        ):
            session.advance_cluster_time(clock)
            try:
                oplog = self._oplog(majority=True)
                oplog.find_one({}, {"ts": 1}, session=session, max_time_ms=_REACH_MS)
            except OperationFailure:
                return self.majority_time()  # it is late, and the others have to wait for it
        return to

    # -- entries ------------------------------------------------------------------------------------------

    def entries(
        self, after: int, through: int, condition: EntryCondition, batch_bytes: int | None = None
    ) -> Iterator[Sequence[bytes]]:
        """Return the entries of an interval, in batches of about a size, or as large as the server's.

        The last entries show how many fit into a batch.
        """
        member = self.selected()
        with driver_errors(self.uri, rights.OPLOG), session_at(member.client, through) as session:
            position = after
            count = 0 if batch_bytes is None else _FIRST_BATCH
            is_over = False
            while not is_over:
                is_over = True
                for batch in member._batches(position, through, condition, count, session):
                    # Asked after the batch was read: what is there now was there then.
                    if member.oldest() > position + 1:
                        raise history_lost(position)
                    entries = _entries_of(batch)
                    if not entries:
                        continue
                    position = entry_time(entries[-1])
                    yield entries
                    fitting = batch_bytes and max(batch_bytes * len(entries) // len(batch), 1)
                    if fitting and not count / 4 <= fitting <= count * 4:
                        count, is_over = fitting, False
                        break
        if position == after and member.oldest() > after + 1:
            raise history_lost(after)

    def follow(self, after: EntryMark) -> Iterator[Sequence[bytes]]:
        """Return the entries after one as they become majority committed, as long as the member can be read.

        While there is nothing new, an empty sequence comes about twice a second. Raises `CommandError` 286 if
        the oplog no longer goes back to that entry.
        """
        member = self.selected()
        query = {"ts": {"$gte": to_timestamp(after.time)}}
        with driver_errors(self.uri, rights.OPLOG), session_at(member.client, after.time) as session:
            oplog = member._oplog(majority=True)
            has_begun = False
            with oplog.find_raw_batches(
                query, cursor_type=CursorType.TAILABLE_AWAIT, session=session
            ).max_await_time_ms(_AWAIT_MS) as cursor:
                while cursor.alive:
                    for batch in raw_batches(cursor):
                        entries = split_documents(batch)
                        if entries and not has_begun:
                            if EntryMark.of(entries[0]) != after:
                                raise history_lost(after.time)
                            has_begun = True
                            del entries[0]
                        yield entries
                    yield ()

    def _batches(
        self, after: int, through: int, condition: EntryCondition, count: int, session: ClientSession
    ) -> Iterator[bytes]:
        query = times_between(after, through) | condition.query()
        oplog = self._oplog(majority=True)
        with ReplyCursor(oplog, query, session=session, batch_size=count) as cursor:
            yield from raw_batches(cursor)

    def entry(self, through: int, ts: int, term: int) -> bytes | None:
        """Return the entry at exactly this position, up to a promised time; None if it is not there."""
        with driver_errors(self.uri, rights.OPLOG), session_at(self.client, through) as session:
            oplog = self._oplog(majority=True)
            for raw in documents_of(oplog.find_raw_batches(_at(ts), limit=1, session=session)):
                return raw if parse_entry(raw).term == term else None
        return None

    def has_diverged(self, mark: EntryMark) -> bool:
        """Return whether the entry of a mark is gone although the oplog goes back to its time.

        The member may have been deposed, or not have caught up. So it has time to reach that of the entry.
        """
        if self._mark_at(mark.time) == mark:
            return False
        if not self._reaches(mark.time):
            return True
        member = self.selected()
        with session_at(member.client, mark.time) as session:
            return member._mark_at(mark.time, session) != mark and member.oldest() <= mark.time

    def _reaches(self, ts: int) -> bool:
        """Wait for as long as an election may take; return whether the member has reached a cluster time."""
        deadline = time.monotonic() + _ELECTION_SECONDS
        while self.majority_time() < ts:
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def _mark_at(self, ts: int, session: ClientSession | None = None) -> EntryMark | None:
        with driver_errors(self.uri, rights.OPLOG):
            oplog = self._oplog(majority=session is not None)
            for raw in documents_of(oplog.find_raw_batches(_at(ts), limit=1, session=session)):
                return EntryMark.of(raw)
        return None

    def mark_of(self, raw: bytes) -> EntryMark:
        """Return what identifies an entry that was read here."""
        return EntryMark.of(raw)

    # -- queries ------------------------------------------------------------------------------------------

    @contextmanager
    def measured(self, after: int, through: int) -> Iterator[IntervalMeasures]:
        """Measure an interval that was promised, as one member has it."""
        member = self.selected()
        with session_at(member.client, through) as session:
            yield IntervalMeasures(member._oplog(majority=True), member.uri, session, after, through)

    def find_entries(
        self, query: dict[str, Any], fields: dict[str, Any], through: int | None = None
    ) -> Iterable[dict[str, Any]]:
        with driver_errors(self.uri, rights.OPLOG):
            if through is None:
                oplog = self._oplog().with_options(read_preference=ReadPreference.PRIMARY)
                return list(oplog.find(query, fields))
            with session_at(self.client, through) as session:
                return list(self._oplog(majority=True).find(query, fields, session=session))

    def find_sessions(self, query: dict[str, Any]) -> Iterable[dict[str, Any]]:
        config = self.client.get_database("config", read_preference=ReadPreference.PRIMARY)
        with driver_errors(self.uri, rights.TRANSACTIONS):
            return list(config.transactions.find(query))

    def _oplog(self, *, majority: bool = False) -> Collection[dict[str, Any]]:
        concern = ReadConcern("majority") if majority else None
        return self.client.local.get_collection("oplog.rs", read_concern=concern)


def majority_time(hello: Mapping[str, Any]) -> ClusterTime:
    """Return the time of a member's newest majority committed entry."""
    return from_timestamp(hello["lastWrite"]["majorityOpTime"]["ts"])


def clock_time(hello: Mapping[str, Any]) -> ClusterTime:
    """Return what the cluster's clock shows."""
    return from_timestamp(hello["$clusterTime"]["clusterTime"])


def _entries_of(batch: bytes) -> Sequence[bytes]:
    """The entries of a reply; they become objects only where somebody asks for one."""
    found = split(batch)
    if found.damage is None and found.count and found.stops[-1] == len(batch):
        return RawEntries(batch, found.stops, found.times)
    return split_documents(batch)  # it raises the error of what is wrong


def _at(ts: int) -> dict[str, Any]:
    return {"ts": to_timestamp(ts)}
