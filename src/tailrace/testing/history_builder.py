"""Build a history in this process, without Spark, for tests of streams that read from it.

It calls the functions of the pipeline's tasks and of its driver, on the oplogs of stores in this process. So
the rows are those of the pipeline, and a test does not wait for Java.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tailrace.events.cluster_time import ClusterTime
from tailrace.events.interval import Interval
from tailrace.events.promise import Promise
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stream_release import CURRENT_RELEASE
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.log.head import has_entries_from
from tailrace.mongod.store.store import Store
from tailrace.namespaces import EVERYTHING_KEPT, NamespaceChoice
from tailrace.pipeline.history.build import build
from tailrace.sources.source import BATCH_BYTES, OplogSource, Volume

_PAUSE_SECONDS: Final = 0.005


class StoreSource(OplogSource):
    """The oplogs of open stores in this process."""

    def __init__(
        self,
        stores: Mapping[str, Store],
        identity: str,
        promised: Callable[[], int],
        lookups: Lookups | None = None,
    ) -> None:
        """``lookups`` replace those of the stores, for images and entries that the stores no longer have."""
        self._stores = stores
        self._identity = identity
        self._promised = promised
        self._lookups = {shard: lookups or store.lookups for shard, store in stores.items()}

    def shards(self) -> tuple[str, ...]:
        """The names of the shards; a replica set is one shard with an empty name."""
        return tuple(self._stores)

    def identity(self) -> str:
        """The id of the replica set or the cluster."""
        return self._identity

    def oldest(self, shard: str | None = None) -> ClusterTime:
        stores = self._stores.values() if shard is None else [self._stores[shard]]
        return ClusterTime(max(0 if has_entries_from(store, 0) else store.oldest for store in stores))

    def promised(self) -> Promise:
        """The newest time that is on disk and that streams have seen."""
        return Promise(ClusterTime(self._promised()))

    def entries(
        self,
        shard: str,
        after: int,
        through: int,
        condition: object = None,  # noqa: ARG002
    ) -> Iterator[Sequence[bytes]]:
        """The entries of an interval, read in one snapshot: intervals of tests are short."""
        batch: list[bytes] = []
        size = 0
        with self._stores[shard].snapshot() as snapshot:
            for ts, raw in snapshot.entries(after):
                if ts > through:
                    break
                batch.append(raw)
                size += len(raw)
                if size >= BATCH_BYTES:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def lookups(self, shard: str, after: int, through: int) -> Lookups:  # noqa: ARG002
        return self._lookups[shard]

    @property
    def volume(self) -> Volume:
        return _Unmeasured()


class _Unmeasured(Volume):
    """An interval is one piece, without limits."""

    def cuts(self, after: int, through: int, parts: int) -> list[int]:  # noqa: ARG002
        return []

    def limit(self, after: int, through: int, max_entries: int, max_bytes: int) -> int:  # noqa: ARG002
        return through


def _store_source(store: Store, lookups: Lookups | None) -> StoreSource:
    return StoreSource({"": store}, str(store.set_id), lambda: store.last_committed, lookups)


class HistoryBuilder:
    """Builds a history on request, and continuously between `start` and `stop`."""

    def __init__(
        self,
        source: Store | OplogSource,
        path: str | Path,
        lookups: Lookups | None = None,
        kept: NamespaceChoice = EVERYTHING_KEPT,
    ) -> None:
        """``source`` is the store of a replica set, or any source. A new history has what is ``kept``."""
        self._kept = kept
        self._source = _store_source(source, lookups) if isinstance(source, Store) else source
        self._path = path
        self._table: HistoryTable | None = None
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def build(self, through: int | None = None) -> int:
        """Commit everything up to now or to a cluster time; return the time that the history has reached."""
        with self._lock:
            table = self._opened()
            end = self._source.promised() if through is None else through
            if end > table.through:
                interval = Interval(table.through, end)
                built = build(self._source, interval, self._path, table.kept.now)
                commit(table, built.files, after=interval.after, through=end, newest=built.newest)
            return table.through

    def _opened(self) -> HistoryTable:
        if self._table is None:
            if HistoryTable.exists(self._path):
                self._table = HistoryTable.open(self._path)
            else:
                begins = self._source.beginning()
                self._table = HistoryTable.create(
                    self._path,
                    identity=self._source.identity(),
                    begins=begins,
                    release=self._source.release() or CURRENT_RELEASE,
                    kept=self._kept,
                )
        return self._table

    def start(self) -> Self:
        """Build continuously in a thread."""
        self._thread = threading.Thread(target=self._run, name="tailrace-history-builder", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread; the history remains."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._ending.wait(_PAUSE_SECONDS):
            self.build()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
