"""The oplog of one shard as a window: from when until when, how full, and when an entry leaves it."""

from dataclasses import dataclass
from typing import Any, Final

from tailrace.cli.asking import words
from tailrace.events.cluster_time import from_timestamp, seconds_of, to_timestamp
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.driver_errors import driver_errors

_RECENT_ENTRIES: Final = 1000
"""The newest entries, whose rate counts as the present one."""


@dataclass(frozen=True, slots=True)
class OplogWindow:
    shard: str
    """Empty for a replica set."""
    begins: int
    """Cluster times of the oldest and the newest entry."""
    ends: int
    entries: int
    bytes: int
    most_bytes: int
    bytes_per_second: float
    kept_seconds: float
    """The server keeps entries at least as long."""

    def stays(self, since: float, now: float) -> float | None:
        """For how many more seconds an entry of a time will be in the oplog; None if nothing is written."""
        if self.bytes_per_second <= 0:
            return None
        life = max(self.most_bytes / self.bytes_per_second, self.kept_seconds)
        return max(since + life - now, 0.0)

    def as_document(self, now: float) -> dict[str, Any]:
        return {
            "shard": self.shard,
            "begins": words.moment(seconds_of(self.begins)),
            "ends": words.moment(seconds_of(self.ends)),
            "windowSeconds": seconds_of(self.ends) - seconds_of(self.begins),
            "entries": self.entries,
            "bytes": self.bytes,
            "mostBytes": self.most_bytes,
            "bytesPerSecond": round(self.bytes_per_second, 1),
            "entryStaysSeconds": None if (stays := self.stays(now, now)) is None else round(stays),
        }

    def in_words(self, now: float) -> str:
        stays = self.stays(now, now)
        future = "nothing is written" if stays is None else f"a new entry stays for {words.span(stays)}"
        return (
            f"{f'{self.shard}: ' if self.shard else ''}{self.entries:,} entries, {words.size(self.bytes)} of "
            f"{words.size(self.most_bytes)}, since {words.moment(seconds_of(self.begins))}; "
            f"{words.size(self.bytes_per_second)}/s: {future}"
        )


def oplog_of(client: Client, uri: str, shard: str = "") -> OplogWindow | None:
    """The oplog of a replica set or a shard; None if it has none, as a standalone server."""
    oplog = client.local["oplog.rs"]
    with driver_errors(uri, rights.OPLOG):
        oldest = oplog.find_one({}, {"ts": 1}, sort=[("$natural", 1)])
        newest = oplog.find_one({}, {"ts": 1}, sort=[("$natural", -1)])
        if oldest is None or newest is None:
            return None
        recent = list(oplog.find({}, {"ts": 1}, sort=[("$natural", -1)], skip=_RECENT_ENTRIES - 1, limit=1))
    with driver_errors(uri, "collStats on local.oplog.rs (the role clusterMonitor)"):
        stats = client.local.command("collStats", "oplog.rs")
        kept = client.admin.command("serverStatus").get("oplogTruncation", {})
    since = (recent[0] if recent else oldest)["ts"].time
    counted = min(stats["count"], _RECENT_ENTRIES)
    seconds = max(newest["ts"].time - since, 1)
    return OplogWindow(
        shard,
        from_timestamp(oldest["ts"]),
        from_timestamp(newest["ts"]),
        stats["count"],
        stats["size"],
        stats.get("maxSize", 0),
        counted * stats.get("avgObjSize", 0) / seconds,
        float(kept.get("oplogMinRetentionHours", 0)) * 3600,
    )


def entries_after(client: Client, uri: str, time: int) -> int:
    """How many entries an oplog has after a time."""
    with driver_errors(uri, rights.OPLOG):
        return client.local["oplog.rs"].count_documents({"ts": {"$gt": to_timestamp(time)}})
