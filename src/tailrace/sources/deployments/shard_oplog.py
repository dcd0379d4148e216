"""The oplog of one shard, read through PyMongo from its primary.

Entries of an interval are read as raw batches, majority committed and at least as new as the interval's end:
a primary that was deposed and does not know it cannot answer with a gap.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pymongo import ReadPreference
from pymongo.client_session import ClientSession
from pymongo.collection import Collection
from pymongo.errors import OperationFailure
from pymongo.read_concern import ReadConcern

from tailrace.events.cluster_time import BEGINNING, ClusterTime, from_timestamp, to_timestamp
from tailrace.events.entry_mark import EntryMark
from tailrace.events.oplog_entry import OplogEntry, parse_entry
from tailrace.events.oplog_start import is_first_entry
from tailrace.events.stages.check_resumability import history_lost
from tailrace.events.stream_release import StreamRelease
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.conditions import EntryCondition
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client, documents_of, raw_batches, session_at
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.raw_documents import split_documents

Hello = dict[str, Any]

_REACH_MS: Final = 2000
"""How long a shard may take to reach the time of another one."""
_ELECTION_SECONDS: Final = 15.0
"""Longer than a primary that was cut off takes to step down, which is 10 seconds by default."""
_POLL_SECONDS: Final = 0.1
_MOST_SKIPPED: Final = (1 << 31) - 1


class ShardOplog:
    """Errors of the driver are raised as those of `driver_errors`."""

    def __init__(self, client: Client, uri: str) -> None:
        self.client = client
        self.uri = uri

    # -- times --------------------------------------------------------------------------------------------

    def hello(self) -> Hello:
        with driver_errors(self.uri, rights.NONE):
            return self.client.admin.command("hello")

    def majority_time(self) -> ClusterTime:
        return majority_time(self.hello())

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

    def entries(self, after: int, through: int, condition: EntryCondition) -> Iterator[Sequence[bytes]]:
        position = after
        with (
            driver_errors(self.uri, rights.OPLOG),
            session_at(self.client, through) as session,
        ):
            oplog = self._oplog(majority=True)
            query = _times(after, through) | condition.query()
            with oplog.find_raw_batches(query, session=session) as cursor:
                for batch in raw_batches(cursor):
                    # Asked after the batch was read: what is there now was there then.
                    if self.oldest() > position + 1:
                        raise history_lost(position)
                    entries = split_documents(batch)
                    if entries:
                        position = entry_time(entries[-1])
                        yield entries
        if position == after and self.oldest() > after + 1:
            raise history_lost(after)

    def entry(self, ts: int, term: int) -> bytes | None:
        """Return the entry at exactly this position; None if the oplog does not have it."""
        with driver_errors(self.uri, rights.OPLOG):
            found = self._oplog().find_raw_batches({"ts": to_timestamp(ts)}, limit=1)
            for raw in documents_of(found):
                return raw if parse_entry(raw).term == term else None
        return None

    def has_diverged(self, mark: EntryMark) -> bool:
        """Return whether the entry of a mark is gone although the oplog goes back to its time.

        The primary may have been deposed, or not have caught up. So it has time to reach that of the entry.
        """
        if self._mark_at(mark.time) == mark:
            return False
        deadline = time.monotonic() + _ELECTION_SECONDS
        while self.majority_time() < mark.time:
            if time.monotonic() > deadline:
                return True
            time.sleep(_POLL_SECONDS)
        with session_at(self.client, mark.time) as session:
            return self._mark_at(mark.time, session) != mark and self.oldest() <= mark.time

    def _mark_at(self, ts: int, session: ClientSession | None = None) -> EntryMark | None:
        with driver_errors(self.uri, rights.OPLOG):
            oplog = self._oplog(majority=session is not None)
            query = {"ts": to_timestamp(ts)}
            for raw in documents_of(oplog.find_raw_batches(query, limit=1, session=session)):
                return EntryMark.of(raw)
        return None

    # -- measures -----------------------------------------------------------------------------------------

    def newest_up_to(self, limit: int) -> int | None:
        """Return the time of the newest entry up to a cluster time."""
        with driver_errors(self.uri, rights.OPLOG):
            found = self._oplog().find_one(
                {"ts": {"$lte": to_timestamp(limit)}}, {"ts": 1}, sort=[("$natural", -1)]
            )
        return None if found is None else from_timestamp(found["ts"])

    def sizes(self, after: int, through: int, count: int) -> Iterator[tuple[int, int]]:
        """Return times and sizes of the first ``count`` entries of an interval."""
        with driver_errors(self.uri, rights.OPLOG):
            for raw in documents_of(self._oplog().find_raw_batches(_times(after, through), limit=count)):
                yield entry_time(raw), len(raw)

    def time_of(self, after: int, through: int, number: int) -> int | None:
        """Return the time of the n-th entry of an interval, from 0; None if there are fewer."""
        if number > _MOST_SKIPPED:
            return None
        with driver_errors(self.uri, rights.OPLOG):
            found = self._oplog().find(_times(after, through), {"ts": 1}).sort("$natural", 1)
            for entry in found.skip(number).limit(1):
                return from_timestamp(entry["ts"])
        return None

    # -- queries ------------------------------------------------------------------------------------------

    def find_entries(self, query: dict[str, Any], fields: dict[str, Any]) -> Iterable[dict[str, Any]]:
        with driver_errors(self.uri, rights.OPLOG):
            return list(self._oplog().find(query, fields))

    def find_sessions(self, query: dict[str, Any]) -> Iterable[dict[str, Any]]:
        with driver_errors(self.uri, rights.TRANSACTIONS):
            return list(self.client.config.transactions.find(query))

    def _oplog(self, *, majority: bool = False) -> Collection[dict[str, Any]]:
        return self.client.local.get_collection(
            "oplog.rs",
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority") if majority else None,
        )


def majority_time(hello: Mapping[str, Any]) -> ClusterTime:
    """Return the time of a member's newest majority committed entry."""
    return from_timestamp(hello["lastWrite"]["majorityOpTime"]["ts"])


def clock_time(hello: Mapping[str, Any]) -> ClusterTime:
    """Return what the cluster's clock shows."""
    return from_timestamp(hello["$clusterTime"]["clusterTime"])


def _times(after: int, through: int) -> dict[str, Any]:
    return {"ts": {"$gt": to_timestamp(after), "$lte": to_timestamp(through)}}
