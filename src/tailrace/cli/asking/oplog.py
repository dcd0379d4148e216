"""The oplog of one shard as a window: from when until when, how full, and when an entry leaves it."""

from dataclasses import dataclass
from typing import Any

from tailrace.cli.asking import words
from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.sources.deployments import rights
from tailrace.sources.deployments.clients import Client
from tailrace.sources.deployments.driver_errors import driver_errors
from tailrace.sources.log_window import FIRST_RECENT_ENTRY, LogWindow, oplog_window


@dataclass(frozen=True, slots=True)
class ShardOplog:
    shard: str
    """Empty for a replica set."""
    begins: int
    """The cluster time of the oldest entry."""
    entries: int | None
    """None if nobody has counted them."""
    window: LogWindow

    def stays(self, since: float, now: float) -> float | None:
        """For how many more seconds an entry of a time will be in the oplog; None if nothing is written."""
        return self.window.seconds_left(since, now)

    def as_document(self, now: float) -> dict[str, Any]:
        return {
            "shard": self.shard,
            "begins": words.moment(self.window.oldest),
            "ends": words.moment(self.window.newest),
            "windowSeconds": round(self.window.seconds),
            "entries": self.entries,
            "bytes": self.window.bytes,
            "mostBytes": self.window.limit or 0,
            "bytesPerSecond": round(self.window.bytes_per_second(now), 1),
            "entryStaysSeconds": None if (stays := self.stays(now, now)) is None else round(stays),
        }

    def in_words(self, now: float) -> str:
        stays = self.stays(now, now)
        future = "nothing is written" if stays is None else f"a new entry stays for {words.span(stays)}"
        window = self.window
        count = "" if self.entries is None else f"{self.entries:,} entries, "
        return (
            f"{f'{self.shard}: ' if self.shard else ''}{count}"
            f"{words.size(window.bytes)} of {words.size(window.limit or 0)}, "
            f"since {words.moment(window.oldest)}; {words.size(window.bytes_per_second(now))}/s: {future}"
        )


def oplog_of(client: Client, uri: str, shard: str = "") -> ShardOplog | None:
    """The oplog of a replica set or a shard; None if it has none, as a standalone server."""
    oplog = client.local["oplog.rs"]
    with driver_errors(uri, rights.OPLOG):
        oldest = oplog.find_one({}, {"ts": 1}, sort=[("$natural", 1)])
        newest = oplog.find_one({}, {"ts": 1}, sort=[("$natural", -1)])
        if oldest is None or newest is None:
            return None
        recent = client.local.command(dict(FIRST_RECENT_ENTRY))
    with driver_errors(uri, "collStats on local.oplog.rs (the role clusterMonitor)"):
        stats = client.local.command("collStats", "oplog.rs")
        status = client.admin.command("serverStatus")
    window = oplog_window(oldest["ts"].time, newest["ts"].time, recent, stats, status)
    return ShardOplog(shard, from_timestamp(oldest["ts"]), stats["count"], window)


def entries_after(client: Client, uri: str, time: int) -> int:
    """How many entries an oplog has after a time."""
    with driver_errors(uri, rights.OPLOG):
        return client.local["oplog.rs"].count_documents({"ts": {"$gt": to_timestamp(time)}})
