"""A replica set whose own change stream is read, as a source of entries."""

from collections.abc import Iterator
from functools import partial

from tailrace.events.cluster_time import ClusterTime
from tailrace.events.entry_mark import EntryMark
from tailrace.events.recovered.entries import mark_of
from tailrace.events.stages.lookups import Lookups
from tailrace.sources.archives.entries import entry_time
from tailrace.sources.batch_boundaries import Commit
from tailrace.sources.conditions import EVERYTHING
from tailrace.sources.deployments.current_documents import CurrentDocuments
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import limit_by_count
from tailrace.sources.recorded.stream_oplog import StreamOplog
from tailrace.sources.source import Volume


class RecordedSource(DeploymentSource):
    """See `DeploymentSource`. Every task opens a stream of its own for the interval that it reads."""

    is_recorded = True

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._oldest: ClusterTime | None = None

    def oldest(self, shard: str | None = None) -> ClusterTime:  # noqa: ARG002 - there is one
        """See `OplogSource`; found by trying, to the second."""
        self._oldest = self._oplog("").oldest_since(self._oldest)
        return self._oldest

    def lookups(self, shard: str, after: int, through: int) -> Lookups:  # noqa: ARG002 - as it is short
        """Return look-ups of current documents; the entries have their pre-images."""
        oplog = self._oplog(shard)
        current = CurrentDocuments(oplog.client, oplog.uri, through)
        return Lookups(partial(oplog.entry, through), document=current.find)

    def mark_of(self, raw: bytes) -> EntryMark:
        return mark_of(raw)

    def commits(self, after: int, through: int) -> list[Commit]:  # noqa: ARG002 - there are no other shards
        return []

    @property
    def volume(self) -> Volume:
        return _RecordedVolume(self._oplog(""))

    def _oplog(self, shard: str) -> StreamOplog:
        return StreamOplog.of(super()._oplog(shard))


class _RecordedVolume(Volume):
    """A stream shows how much there is only by being read."""

    def __init__(self, oplog: StreamOplog) -> None:
        self._oplog = oplog

    def cuts(self, after: int, through: int, parts: int) -> list[int]:
        """See `Volume`; equal times are taken for equal work."""
        first, last = (after >> 32) + 1, through >> 32
        seconds = sorted({first + (last - first) * part // parts for part in range(1, parts)})
        return [second << 32 for second in seconds if after < second << 32 < through]

    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:
        return limit_by_count(through, max_entries, max_bytes, self._sizes(after, through))

    def _sizes(self, after: int, through: int) -> Iterator[tuple[int, int]]:
        for entries in self._oplog.entries(after, through, EVERYTHING):
            for entry in entries:
                yield entry_time(entry), len(entry)
