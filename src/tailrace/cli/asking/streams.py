"""The open change streams of a deployment, by `$currentOp`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tailrace.cli.asking import words
from tailrace.cli.asking.oplog import ShardOplog
from tailrace.events.cluster_time import seconds_of
from tailrace.events.resume_token import cluster_time_of
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.driver_errors import driver_errors

_RESUMES = ("resumeAfter", "startAfter", "startAtOperationTime")


@dataclass(frozen=True, slots=True)
class OpenStream:
    scope: str
    client: str | None
    """Its address; None if that is not known: a MongoDB shows none while a cursor is idle."""
    events: int
    asked: float
    """When its client last asked for events, in seconds since 1970; now, while it waits for some."""
    position: float
    """Up to when it has read, in seconds since 1970."""
    is_exact: bool
    """False if that is only the latest it can be: when its client asked, as a MongoDB shows no more."""
    lag_seconds: float
    """How much was written after its position; 0 while it waits for events."""
    stays_seconds: float | None
    """How long its position stays in the oplog; None if nothing is written."""
    resumed: bool | None
    """Whether it was opened at a position; None if that is not known."""

    def as_document(self) -> dict[str, Any]:
        return {
            "scope": self.scope,
            "client": self.client,
            "events": self.events,
            "askedAt": words.moment(self.asked),
            "position": words.moment(self.position),
            "positionIsExact": self.is_exact,
            "lagSeconds": round(self.lag_seconds),
            "leavesOplogSeconds": None if self.stays_seconds is None else round(self.stays_seconds),
            "resumed": self.resumed,
        }

    def in_words(self) -> str:
        future = (
            "" if self.stays_seconds is None else f", leaves the oplog in {words.span(self.stays_seconds)}"
        )
        return (
            f"{self.scope}  client {self.client or 'unknown'}  {self.events:,} events  "
            f"read until {words.moment(self.position)}{'' if self.is_exact else ' at most'}  "
            f"lag {words.span(self.lag_seconds)}{future}"
        )


def streams_of(
    client: Client, uri: str, oplogs: Sequence[ShardOplog], now: float, *, on_router: bool
) -> list[OpenStream]:
    """The open streams, in the order of their scopes."""
    wanted = {
        "$currentOp": {"idleCursors": True, "allUsers": True} | ({"localOps": True} if on_router else {})
    }
    with driver_errors(uri, "inprog on the cluster (the role clusterMonitor)"):
        found = list(client.admin.aggregate([wanted]))
    newest = max((oplog.window.newest for oplog in oplogs), default=0.0)
    return sorted(_read(found, oplogs, newest, now), key=lambda stream: (stream.scope, stream.client or ""))


def _read(
    operations: Sequence[Mapping[str, Any]], oplogs: Sequence[ShardOplog], newest: float, now: float
) -> Iterator[OpenStream]:
    for operation in operations:
        cursor = operation.get("cursor") or {}
        command = cursor.get("originatingCommand") or {}
        first = (command.get("pipeline") or [{}])[0]
        stage = first.get("$changeStream") if isinstance(first, Mapping) else None
        if not isinstance(stage, Mapping):
            continue
        is_waiting = operation.get("type") != "idleCursor"
        last = cursor.get("lastAccessDate")
        asked = now if is_waiting or last is None else _seconds(last)
        shown = _position(cursor)
        position = asked if is_waiting or shown is None else min(asked, shown)
        stays = [left for oplog in oplogs if (left := oplog.stays(position, now)) is not None]
        yield OpenStream(
            _scope(stage, command, operation),
            operation.get("client") or operation.get("client_s"),
            int(cursor.get("nDocsReturned", 0)),
            asked,
            position,
            is_waiting or shown is not None,
            max(newest - position, 0.0),
            min(stays, default=None),
            any(name in stage for name in _RESUMES),
        )


def _scope(stage: Mapping[str, Any], command: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    if stage.get("allChangesForCluster"):
        return "everything"
    # The rest of `ns` depends on whether the cursor is idle.
    database = str(operation.get("ns", "")).partition(".")[0]
    collection = command.get("aggregate")
    return f"{database}.{collection if isinstance(collection, str) else '*'}"


def _position(cursor: Mapping[str, Any]) -> float | None:
    """The position that a server of Tailrace shows; others show none."""
    token = cursor.get("postBatchResumeToken")
    return float(seconds_of(cluster_time_of(token["_data"]))) if isinstance(token, Mapping) else None


def _seconds(moment: datetime) -> float:
    return moment.replace(tzinfo=UTC).timestamp()
