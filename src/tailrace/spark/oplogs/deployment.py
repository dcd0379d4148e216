"""Oplogs of a running deployment, read through PyMongo.

A replica set has one oplog; behind a router every shard has its own, and is asked directly. Entries are read
as raw batches from the primary, majority committed and not older than the interval wants: a primary that was
deposed and does not know it cannot answer with a hole.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import uuid4

from pymongo import ReadPreference
from pymongo.collection import Collection
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from tailrace.bsonio import raw as rawbson
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.model.cluster_time import from_timestamp, to_timestamp
from tailrace.model.oplog_entry import OplogEntry, parse_entry
from tailrace.spark.oplogs.clients import Client, client_of, close_clients, shard_uri
from tailrace.spark.oplogs.conditions import EVERYTHING, EntryCondition
from tailrace.spark.oplogs.deployment_lookups import CurrentDocuments, StoredPreImages
from tailrace.spark.oplogs.raw_documents import documents_of, raw_batches, split_documents
from tailrace.spark.oplogs.sampling import cuts_by_rate
from tailrace.spark.oplogs.source import UNLIMITED, OplogSource
from tailrace.stages.check_resumability import history_lost
from tailrace.stages.lookups import Lookups
from tailrace.store.archive_entries import entry_time

_FIRST_MESSAGE: Final = (rawbson.STRING, b"\x0f\0\0\0initiating set\0")
_SECONDS_BETWEEN_NOTES: Final = 0.1
_SAMPLED_FIRST: Final = 16
_SAMPLED_THEN: Final = 484
_SAMPLED_BYTES: Final = 1 << 20
"""After so many entries or bytes the others are taken to be like them"""
_SAMPLES_PER_PART: Final = 8
_MOST_SAMPLES: Final = 64
_MOST_SKIPPED: Final = (1 << 31) - 1


class DeploymentSource(OplogSource):
    """The oplogs behind a connection string, or behind one for each shard.

    The shards are those there when the source is opened; one that joins later is seen by the next source.
    """

    def __init__(self, uri: str | Mapping[str, str]) -> None:
        self._owner = uuid4().hex
        self._uri = uri if isinstance(uri, str) else next(iter(uri.values()))
        self._shards: dict[str, str] = dict(uri) if isinstance(uri, Mapping) else {}
        self._is_cluster = isinstance(uri, Mapping)
        self._is_routed = False
        self._identity = ""
        self._noted: dict[str, float] = {}
        if not self._shards:
            self._discover()

    def _discover(self) -> None:
        with _speaking_to(self._uri):
            hello = self._client(self._uri).admin.command("hello")
            if hello.get("msg") == "isdbgrid":
                self._is_cluster = self._is_routed = True
                listed = self._client(self._uri).admin.command("listShards")["shards"]
                self._shards = {shard["_id"]: shard_uri(self._uri, shard["host"]) for shard in listed}
            elif "setName" in hello:
                self._shards = {"": self._uri}
            else:
                raise UsageError(
                    f"{_hosts(self._uri)} is a standalone server, which has no oplog; "
                    "start it as a replica set"
                )

    # -- what it is ---------------------------------------------------------------------------------------

    def shards(self) -> tuple[str, ...]:
        """As the router lists them, or one without a name."""
        return tuple(self._shards)

    def identity(self) -> str:
        """The id of the replica set or the cluster, which both keep for life."""
        if not self._identity:
            with _speaking_to(self._uri):
                self._identity = self._cluster_id() if self._is_cluster else self._set_id("")
        return self._identity

    def _cluster_id(self) -> str:
        if not self._is_routed:
            return "+".join(self._set_id(shard) for shard in self._shards)
        version = self._client(self._uri).config.version.find_one()
        if version is None or "clusterId" not in version:
            raise UsageError(f"the router at {_hosts(self._uri)} does not know its cluster's id")
        return str(version["clusterId"])

    def _set_id(self, shard: str) -> str:
        config = self._shard_client(shard).admin.command("replSetGetConfig")["config"]
        return str(config["settings"]["replicaSetId"])

    # -- times --------------------------------------------------------------------------------------------

    def oldest(self, shard: str | None = None) -> int:
        """See `OplogSource`."""
        names = self._shards if shard is None else (shard,)
        return max(self._oldest_of(name) for name in names)

    def _oldest_of(self, shard: str) -> int:
        entry = self._first_of(shard)
        if entry is None or (entry.head.op == "n" and rawbson.field(entry.o, b"msg") == _FIRST_MESSAGE):
            return 0
        return entry.ts

    def _first_of(self, shard: str) -> OplogEntry | None:
        with _speaking_to(self._shards[shard]):
            for raw in documents_of(self._oplog(shard).find_raw_batches({}, limit=1)):
                return parse_entry(raw)
        return None

    def promised(self) -> int:
        """The smallest majority committed time of all shards; one that is idle is asked to move on."""
        promises = {}
        for shard, uri in self._shards.items():
            with _speaking_to(uri):
                hello = self._shard_client(shard).admin.command("hello")
                promises[shard] = from_timestamp(hello["lastWrite"]["majorityOpTime"]["ts"])
        newest = max(promises.values())
        for shard, promise in promises.items():
            if promise < newest:
                promises[shard] = self._move_on(shard, promise, newest)
        return min(promises.values())

    def _move_on(self, shard: str, promise: int, newest: int) -> int:
        """Let a shard that has fallen behind write a note, so that the others need not wait for it."""
        now = time.monotonic()
        if now - self._noted.get(shard, -1.0) < _SECONDS_BETWEEN_NOTES:
            return promise
        self._noted[shard] = now
        client = self._shard_client(shard)
        with _speaking_to(self._shards[shard]), client.start_session() as session:
            try:
                # The shard's clock has to know the time it is to get past.
                for other in self._shards:
                    with self._shard_client(other).start_session() as known:
                        self._shard_client(other).admin.command("ping", session=known)
                        if known.cluster_time is not None:
                            session.advance_cluster_time(known.cluster_time)
                client.admin.command(
                    {
                        "appendOplogNote": 1,
                        "data": {"msg": "a reader of all shards waits for this one"},
                        "maxClusterTime": to_timestamp(newest),
                    },
                    session=session,
                )
            except OperationFailure as error:
                if error.code != ErrorCode.StaleClusterTime:
                    return promise  # without the right to write notes the shard's own ones have to do
            hello = client.admin.command("hello")
        return from_timestamp(hello["lastWrite"]["majorityOpTime"]["ts"])

    # -- entries ------------------------------------------------------------------------------------------

    def entries(
        self, shard: str, after: int, through: int, condition: EntryCondition = EVERYTHING
    ) -> Iterator[Sequence[bytes]]:
        """See `OplogSource`."""
        position = after
        with (
            _speaking_to(self._shards[shard]),
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

    def entry(self, shard: str, ts: int, term: int) -> bytes | None:
        """See `OplogSource`."""
        with _speaking_to(self._shards[shard]):
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
        first = max(after, min(entry.ts for shard in self._shards if (entry := self._first_of(shard))) - 1)
        ask = [partial(self._newest_up_to, shard) for shard in self._shards]
        return cuts_by_rate(first, through, parts, samples, ask)

    def _newest_up_to(self, shard: str, time: int) -> int | None:
        """The time of a shard's newest entry up to a cluster time."""
        with _speaking_to(self._shards[shard]):
            found = self._oplog(shard).find_one(
                {"ts": {"$lte": to_timestamp(time)}}, {"ts": 1}, sort=[("$natural", -1)]
            )
        return None if found is None else from_timestamp(found["ts"])

    def limited(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        """See `OplogSource`; the limits are shared out evenly among the shards."""
        limit = through
        if max_entries >= UNLIMITED and max_bytes >= UNLIMITED:
            return limit
        for shard in self._shards:
            with _speaking_to(self._shards[shard]):
                limit = min(limit, self._limited(shard, after, limit, max_entries, max_bytes))
        return limit

    def _limited(self, shard: str, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        oplog = self._oplog(shard)
        share = max(max_entries // len(self._shards), 1)
        room = max_bytes // len(self._shards)
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

    def _shard_client(self, shard: str) -> Client:
        return self._client(self._shards[shard])

    def _oplog(self, shard: str, *, majority: bool = False) -> Collection[dict[str, Any]]:
        return self._shard_client(shard).local.get_collection(
            "oplog.rs",
            read_preference=ReadPreference.PRIMARY,
            read_concern=ReadConcern("majority") if majority else None,
        )


def _times(after: int, through: int) -> dict[str, Any]:
    return {"ts": {"$gt": to_timestamp(after), "$lte": to_timestamp(through)}}


def _hosts(uri: str) -> str:
    """Where a connection string leads, without its credentials."""
    return uri.partition("://")[2].rpartition("@")[2].partition("/")[0] or uri


@contextmanager
def _speaking_to(uri: str) -> Iterator[None]:
    """Turn what PyMongo raises into one sentence, or into the server's own error."""
    try:
        yield
    except ConnectionFailure as error:
        reason = str(error).partition(", Timeout:")[0]
        raise UsageError(
            f"the source at {_hosts(uri)} cannot be reached: {reason}; is it running, and is the URI right?"
        ) from error
    except OperationFailure as error:
        raise CommandError(error.code or ErrorCode.UnknownError, str(error)) from error
    except PyMongoError as error:
        raise UsageError(f"the source at {_hosts(uri)} cannot be read: {error}") from error
