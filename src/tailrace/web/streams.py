"""The open streams of a deployment: where each is, how fast, how far from the newest event, until when."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from tailrace.errors import TailraceError
from tailrace.events.resume_token import cluster_time_of
from tailrace.sources.log_window import LogWindow
from tailrace.web.deployment import NodeReading

_WAITS_MICROSECONDS: Final = 50_000
"""A getMore that runs for longer has found nothing, and waits for the next event."""
_ALL: Final = "all"
_SHORTEST_SECONDS: Final = 1.0
"""Over which a rate is computed."""


@dataclass(frozen=True, slots=True)
class OpenStream:
    """One stream, as the page shows it. Times are in seconds, moments in seconds since 1970."""

    id: str
    scope: str
    """collection, database or deployment"""
    ns: str
    """What it watches: shop.orders, shop, or all."""
    client: str
    app: str
    user: str
    node: str
    opened: float
    asked: float
    """When its client last asked for events; now, while it waits for some."""
    events: int
    rate: float
    """Events a second since the last look."""
    position: float | None
    token: str
    lag: float | None
    """How much older its position is than the newest event; 0 if it waits for the next one."""
    oplog_left: float | None
    """Until its position is removed from the oplog; None if it never is."""
    history_left: float | None
    is_in_history: bool
    """Whether there is a history that it can be resumed from."""

    def to_document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the last looks at a stream have shown."""

    events: int
    moment: float
    rate: float = 0.0
    client: str = ""
    app: str = ""
    user: str = ""

    def with_entry(self, entry: Mapping[str, Any], moment: float) -> "_Seen":
        """After a further look. What an idle cursor does not show of its client is kept."""
        events = int(entry["cursor"]["nDocsReturned"])
        client = entry.get("client") or entry.get("client_s") or self.client
        app = entry.get("appName") or self.app
        user = ", ".join(each["user"] for each in entry.get("effectiveUsers", ())) or self.user
        seconds = moment - self.moment
        if seconds < _SHORTEST_SECONDS:
            return _Seen(self.events, self.moment, self.rate, client, app, user)
        return _Seen(events, moment, (events - self.events) / seconds, client, app, user)


class StreamTable:
    """Makes streams of what nodes report; remembers the last looks, for rates."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def look(
        self, nodes: Iterable[NodeReading], oplogs: list[LogWindow], history: LogWindow | None
    ) -> list[OpenStream]:
        """All streams, those with the largest lag first."""
        now, moment = time.time(), time.monotonic()
        newest = max((window.newest for window in oplogs), default=None)
        seen: dict[str, _Seen] = {}
        found = []
        for address, entry in ((node.address, entry) for node in nodes for entry in node.streams):
            cursor = entry["cursor"]
            number, events = str(cursor["cursorId"]), int(cursor["nDocsReturned"])
            known = seen[number] = (self._seen.get(number) or _Seen(events, moment)).with_entry(entry, moment)
            token = str(cursor.get("postBatchResumeToken", {}).get("_data", ""))
            position = _seconds_of(token)
            scope, ns = _scope(entry)
            found.append(
                OpenStream(
                    id=number,
                    scope=scope,
                    ns=ns,
                    client=known.client,
                    app=known.app,
                    user=known.user,
                    node=address,
                    opened=cursor["createdDate"].timestamp(),
                    asked=_asked(entry, now),
                    events=events,
                    rate=round(known.rate, 2),
                    position=position,
                    token=token,
                    lag=_lag(entry, position, newest),
                    oplog_left=_left(oplogs, position, now),
                    history_left=_left([] if history is None else [history], position, now),
                    is_in_history=history is not None,
                )
            )
        self._seen = seen
        return sorted(found, key=lambda stream: (-(stream.lag or 0), -stream.rate, stream.ns))


def _scope(entry: Mapping[str, Any]) -> tuple[str, str]:
    command = entry["cursor"]["originatingCommand"]
    database = entry["ns"].partition(".")[0]
    if isinstance(command.get("aggregate"), str):
        return "collection", f"{database}.{command['aggregate']}"
    if command["pipeline"][0]["$changeStream"].get("allChangesForCluster"):
        return "deployment", _ALL
    return "database", database


def _asked(entry: Mapping[str, Any], now: float) -> float:
    last = entry["cursor"].get("lastAccessDate")
    return now if entry.get("type") != "idleCursor" or last is None else last.timestamp()


def _seconds_of(token: str) -> float | None:
    try:
        return float(cluster_time_of(token) >> 32)
    except TailraceError:
        return None


def _lag(entry: Mapping[str, Any], position: float | None, newest: float | None) -> float | None:
    if entry.get("microsecs_running", 0) > _WAITS_MICROSECONDS:
        return 0.0
    if position is None or newest is None:
        return None
    return max(newest - position, 0.0)


def _left(windows: list[LogWindow], position: float | None, now: float) -> float | None:
    """Until the first of several logs has removed a position."""
    if position is None:
        return None
    left = [window.seconds_left(position, now) for window in windows]
    return min((seconds for seconds in left if seconds is not None), default=None)
