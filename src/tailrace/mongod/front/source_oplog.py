"""The source's oplogs, as a history needs them that is built from them."""

from collections.abc import Callable

from tailrace.log.merged_log import MergedLog
from tailrace.log.oplogs import Oplogs, ShardOplogs, StoreOplog
from tailrace.log.ports import OplogStore


class _OfSource(Oplogs):
    """Nothing can be held: the source's oplog has to be larger than the history lags."""

    _newest: Callable[[], int]

    def resume(self, through: int) -> None:
        """Do nothing: entries cannot be held."""

    def hold(self, through: int) -> None:
        """Do nothing: entries cannot be held."""

    def have_reached(self, time: int) -> bool:
        """See `Oplogs`; a pipeline in another process may be ahead of the tail, so the source is asked."""
        return time <= self.now or time <= self._newest()


class SourceOplog(_OfSource, StoreOplog):
    """That of a replica set."""

    def __init__(self, store: OplogStore, newest: Callable[[], int]) -> None:
        """``newest`` asks the source for the time of its newest entry."""
        super().__init__(store)
        self._newest = newest


class SourceShardOplogs(_OfSource, ShardOplogs):
    """Those of the shards of a cluster."""

    def __init__(self, identity: str, log: MergedLog, newest: Callable[[], int]) -> None:
        super().__init__(identity, log)
        self._newest = newest
