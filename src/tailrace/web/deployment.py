"""Read the state of a deployment over the wire: its nodes, their figures, their oplogs, their streams.

Only what any MongoDB reports is asked for (hello, listShards, serverStatus, collStats, `$currentOp`), so a
page works for a real deployment, too; Tailrace's own serverStatus has the sections `history` and `pipeline`
besides. A node that does not answer, or refuses a command, is part of the reading, with the reason.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure, PyMongoError

from tailrace.sources.deployments.clients import member_uri
from tailrace.sources.deployments.driver_errors import in_brief
from tailrace.sources.log_window import FIRST_RECENT_ENTRY, LogWindow, oplog_window

Client: TypeAlias = AsyncMongoClient[dict[str, Any]]

APP_NAME: Final = "tailrace page"
_TIMEOUT_MS: Final = 3000
_TOPOLOGY_SECONDS: Final = 10.0
_ALWAYS: Final = ("opcounters", "metrics")
_ON_REQUEST: Final = (
    *("connections", "network", "history", "pipeline", "repl", "mem"),
    *("oplog", "oplogTruncation"),
)
_STREAMS: Final[list[dict[str, Any]]] = [
    {"$match": {"cursor.awaitData": True}},
    {
        "$project": {
            "type": 1,
            "client": 1,
            "client_s": 1,
            "appName": 1,
            "effectiveUsers": 1,
            "microsecs_running": 1,
            "cursor.cursorId": 1,
            "cursor.createdDate": 1,
            "cursor.lastAccessDate": 1,
            "cursor.nDocsReturned": 1,
            "cursor.postBatchResumeToken": 1,
            "cursor.originatingCommand.aggregate": 1,
            "cursor.originatingCommand.pipeline": 1,
            "ns": 1,
        }
    },
]


def new_client(uri: str, **options: Any) -> Client:
    """A client that does not wait long for a deployment that is away."""
    return AsyncMongoClient(
        uri,
        appname=APP_NAME,
        serverSelectionTimeoutMS=_TIMEOUT_MS,
        connectTimeoutMS=_TIMEOUT_MS,
        tz_aware=True,
        **options,
    )


@dataclass(slots=True)
class NodeReading:
    """What one node reported."""

    address: str
    role: str
    """router, member, or standalone"""
    shard: str = ""
    is_primary: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)
    """Its serverStatus."""
    oplog: LogWindow | None = None
    streams: list[dict[str, Any]] = field(default_factory=list)
    """Entries of `$currentOp`."""
    error: str = ""
    """Why it reported nothing, or less than was asked for."""

    @property
    def stream_counters(self) -> Mapping[str, Any] | None:
        """How many streams and events of streams it counted; None for a MongoDB, which counts none."""
        counted: Mapping[str, Any] = self.status.get("metrics", {}).get("changeStreams", {})
        return counted if "events" in counted else None


@dataclass(slots=True)
class Reading:
    """What a deployment reported at one moment."""

    at: float
    kind: str = "unknown"
    """replica set, sharded cluster, or standalone"""
    name: str = ""
    nodes: list[NodeReading] = field(default_factory=list)
    shards: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def front(self) -> list[NodeReading]:
        """The nodes that clients connect to."""
        return [node for node in self.nodes if not node.shard]


@dataclass(slots=True)
class _Place:
    """A node of the deployment, and a connection to it alone."""

    address: str
    role: str
    shard: str
    client: Client


class Deployment:
    """Reads one deployment. Every method runs in the event loop of the page."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.client = new_client(uri)
        self._places: dict[str, _Place] = {}
        self._kind = "unknown"
        self._name = ""
        self._shards: list[str] = []
        self._discovered = 0.0

    async def close(self) -> None:
        for place in self._places.values():
            await place.client.close()
        await self.client.close()

    async def ping(self) -> None:
        """Raise `PyMongoError` if the deployment does not answer, or nobody can write to it."""
        await self.client.admin.command("ping")

    async def read(self, *, in_full: bool) -> Reading:
        """What the nodes report now; without ``in_full`` only counters of those that clients connect to."""
        now = time.time()
        try:
            if not self._places or time.monotonic() - self._discovered > _TOPOLOGY_SECONDS:
                await self._discover()
        except PyMongoError as error:
            return Reading(now, self._kind, self._name, error=in_short(error))
        places = [place for place in self._places.values() if in_full or not place.shard]
        nodes = await asyncio.gather(*(_read_node(place, in_full=in_full) for place in places))
        return Reading(now, self._kind, self._name, list(nodes), self._shards)

    async def _discover(self) -> None:
        hello = await self.client.admin.command("hello")
        wanted: dict[str, tuple[str, str]] = {}
        self._shards = []
        if hello.get("msg") == "isdbgrid":
            self._kind, self._name = "sharded cluster", ""
            for host, port in sorted(self.client.nodes):
                wanted[_joined(host, port)] = "router", ""
            for shard in (await self.client.admin.command("listShards"))["shards"]:
                self._shards.append(shard["_id"])
                for address in shard["host"].rpartition("/")[2].split(","):
                    wanted[address] = "member", shard["_id"]
        elif "setName" in hello:
            self._kind, self._name = "replica set", hello["setName"]
            for address in [*hello["hosts"], *hello.get("passives", [])]:
                wanted[address] = "member", ""
        else:
            self._kind, self._name = "standalone", ""
            host, port = next(iter(self.client.nodes))
            wanted[_joined(host, port)] = "standalone", ""
        for address in self._places.keys() - wanted.keys():
            await self._places.pop(address).client.close()
        for address, (role, shard) in wanted.items():
            if address not in self._places:
                self._places[address] = _Place(
                    address, role, shard, new_client(member_uri(self._uri, address))
                )
        self._discovered = time.monotonic()


async def _read_node(place: _Place, *, in_full: bool) -> NodeReading:
    reading = NodeReading(place.address, place.role, place.shard)
    wanted = (*_ALWAYS, *_ON_REQUEST) if in_full else _ALWAYS
    try:
        async with asyncio.timeout(_TIMEOUT_MS / 1000):
            await _read_status(place, reading, dict.fromkeys(wanted, 1))
            if in_full:
                await _read_oplog(place, reading)
            if in_full and not place.shard:
                reading.streams = await _streams(place)
    except (PyMongoError, TimeoutError) as error:
        reading.error = in_short(error)
    return reading


async def _read_status(place: _Place, reading: NodeReading, sections: Mapping[str, int]) -> None:
    reading.status = await place.client.admin.command({"serverStatus": 1, "none": 1, **sections})
    reading.is_primary = bool(reading.status.get("repl", {}).get("isWritablePrimary"))


async def _read_oplog(place: _Place, reading: NodeReading) -> None:
    """The window of a primary's oplog: all members have the same one."""
    shown = reading.status.get("oplog")
    if not reading.is_primary or shown is None:
        return
    local = place.client["local"]
    stats = await local.command("collStats", "oplog.rs")
    recent = await local.command(dict(FIRST_RECENT_ENTRY))
    oldest, newest = (_optime(shown[name]) for name in ("earliestOptime", "latestOptime"))
    reading.oplog = oplog_window(oldest, newest, recent, stats, reading.status)


async def _streams(place: _Place) -> list[dict[str, Any]]:
    stage: dict[str, Any] = {"allUsers": True, "idleCursors": True}
    if place.role == "router":
        stage["localOps"] = True
    cursor = await place.client.admin.aggregate([{"$currentOp": stage}, *_STREAMS], batchSize=100_000)
    return [entry async for entry in cursor if _is_stream(entry["cursor"]["originatingCommand"])]


def _is_stream(command: Mapping[str, Any]) -> bool:
    pipeline = command.get("pipeline")
    return isinstance(pipeline, list) and bool(pipeline) and "$changeStream" in pipeline[0]


def in_short(error: BaseException) -> str:
    """One sentence, without the details that PyMongo adds."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OperationFailure):
        return str((error.details or {}).get("errmsg", error))
    return in_brief(error)


def _optime(shown: Any) -> float:
    """The seconds of a Timestamp, or of an optime that contains one."""
    stamp = shown["ts"] if isinstance(shown, Mapping) else shown
    return float(stamp.time)


def _joined(host: str, port: int | None) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
