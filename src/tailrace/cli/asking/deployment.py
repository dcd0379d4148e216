"""What a deployment says about itself, over the wire: a server of Tailrace, or any MongoDB."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tailrace.cli.asking import words
from tailrace.cli.asking.groups import groups_of
from tailrace.cli.asking.history import HistoryFacts, facts_of_server
from tailrace.cli.asking.oplog import ShardOplog, oplog_of
from tailrace.cli.asking.streams import OpenStream, streams_of
from tailrace.client.groups.control_flow import GroupStatus
from tailrace.errors import AccessError, CommandError
from tailrace.sources.deployments.clients import Client, open_client, shard_uri
from tailrace.sources.deployments.driver_errors import driver_errors

T = TypeVar("T")

OURS: Final = "tailrace"
_MONITOR: Final = "serverStatus, replSetGetStatus and listShards on the cluster (the role clusterMonitor)"
_HEALTHY_STATES: Final = ("PRIMARY", "SECONDARY", "ARBITER", "SHARD", "ROUTER")


@dataclass(slots=True)
class Deployment:
    name: str
    """The product, its version and its kind."""
    kind: str
    uptime: float
    is_ours: bool
    error: str = ""
    """Why it does not answer to the process that was asked about it."""
    members: list[tuple[str, str]] = field(default_factory=list)
    """Addresses, and their states."""
    oplogs: list[ShardOplog] = field(default_factory=list)
    streams: list[OpenStream] = field(default_factory=list)
    groups: list[GroupStatus] | str | None = field(default_factory=list)
    """Consumer groups, or why they cannot be shown: few users may read their positions.

    None if nobody has asked for them.
    """
    pipeline: dict[str, Any] | None = None
    history: HistoryFacts | None = None
    has_history: bool = False
    """Whether it has one, or will have when the pipeline has started."""
    hidden: list[str] = field(default_factory=list)
    """What the user may not see."""
    source: dict[str, Any] | None = None
    """What a server that stands in front of another deployment says about it; that one has the oplog."""

    def in_words(self) -> str:
        return f"{self.name}, {self.kind}, up {words.span(self.uptime)}"


def ask_deployment(uri: str, now: float, positions: str | None = None) -> Deployment:
    """``positions`` is where groups keep them, if not in the server.

    Raises `SourceUnavailableError` if nobody answers, `AccessError` if the user may see nothing.
    """
    with open_client(uri) as client:
        with driver_errors(uri, _MONITOR):
            hello = client.admin.command("hello")
            status = client.admin.command("serverStatus")
        on_router = hello.get("msg") == "isdbgrid"
        found = _described(client, hello, status, on_router=on_router)
        if found.source is not None:
            found.members = [("the server", "ROUTER")] if on_router else [(hello["me"], "PRIMARY")]
        elif on_router:
            _add_shards(client, uri, found)
        else:
            _see(found, lambda: _add_members(client, uri, hello, found))
            oplog = _see(found, lambda: oplog_of(client, uri))
            found.oplogs = [] if oplog is None else [oplog]
        found.streams = (
            _see(found, lambda: streams_of(client, uri, found.oplogs, now, on_router=on_router)) or []
        )
        if (found.is_ours and found.source is None) or positions is not None:
            found.groups = _groups(client, uri, positions)
    return found


def _described(
    client: Client, hello: dict[str, Any], status: dict[str, Any], *, on_router: bool
) -> Deployment:
    build = client.admin.command("buildInfo")
    ours = build.get("buildEnvironment", {}).get(OURS)
    version = f"MongoDB {status['version']}"
    kind = f"replica set {hello['setName']}" if "setName" in hello else "a standalone server"
    section = status.get("history")
    return Deployment(
        name=f"Tailrace {ours} as {version}" if ours else version,
        kind="a sharded cluster" if on_router else kind,
        uptime=float(status.get("uptime", 0)),
        is_ours=bool(ours),
        pipeline=status.get("pipeline"),
        history=None if section is None else facts_of_server(section),
        has_history=section is not None,
        groups=None if status.get("source") else [],
        source=status.get("source"),
    )


def _groups(client: Client, uri: str, positions: str | None) -> list[GroupStatus] | str:
    try:
        return groups_of(client, uri, positions)
    except AccessError as error:
        return error.message


def _see(found: Deployment, ask: Callable[[], T]) -> T | None:
    """Ask for a part; if the user may not see it, say so and go on."""
    try:
        return ask()
    except AccessError as error:
        found.hidden.append(error.message)
        return None


def _add_members(client: Client, uri: str, hello: dict[str, Any], found: Deployment) -> None:
    if "setName" not in hello:
        return
    with driver_errors(uri, _MONITOR):
        status = client.admin.command("replSetGetStatus")
    found.members = [
        (member["name"], member["stateStr"] if member.get("health", 1) else "unreachable")
        for member in status["members"]
    ]


def _add_shards(client: Client, uri: str, found: Deployment) -> None:
    with driver_errors(uri, _MONITOR):
        shards = client.admin.command("listShards")["shards"]
    for shard in shards:
        name, address = shard["_id"], shard_uri(uri, shard["host"])
        with open_client(address) as at_shard:
            try:
                oplog = _see(found, lambda: oplog_of(at_shard, address, name))  # noqa: B023 - called now
            except CommandError:
                raise
            except Exception:  # the shard does not answer
                found.members.append((f"{name} ({shard['host']})", "unreachable"))
                continue
        found.members.append((f"{name} ({shard['host']})", "SHARD"))
        if oplog is not None:
            found.oplogs.append(oplog)


def faults_of(found: Deployment) -> list[str]:
    """What is wrong with a deployment, each with what to do."""
    faults = [
        f"{address} is {state}; look at its log, and start it again if it has ended"
        for address, state in found.members
        if state not in _HEALTHY_STATES
    ]
    if found.error:
        faults.append(f"the deployment does not answer: {found.error}; is it running?")
    if found.source is not None and found.source["away"]:
        address = found.source["address"]
        faults.append(f"the source at {address} does not answer, and streams wait for it; is it running?")
    states = {state for _, state in found.members}
    if found.members and "SHARD" not in states and "PRIMARY" not in states:
        faults.append("there is no primary, so nothing can be written; a majority of the members has to run")
    return faults
