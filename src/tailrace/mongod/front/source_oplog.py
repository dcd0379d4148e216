"""The source's oplog, as a history needs it that is built from it."""

from collections.abc import Iterable

from tailrace.log.head import has_entries_from
from tailrace.log.oplogs import Oplogs
from tailrace.log.ports import OplogStore
from tailrace.mongod.front.source_store import SourceStore


class SourceOplogs(Oplogs):
    """See `Oplogs`. Nothing can be held: the source's oplog has to be larger than the history lags."""

    def __init__(self, store: SourceStore) -> None:
        self.identity = store.source.identity
        self.lookups = {"": store.lookups}
        self._store = store

    @property
    def stores(self) -> Iterable[OplogStore]:
        return (self._store,)

    @property
    def now(self) -> int:
        return self._store.last_committed

    @property
    def truncated_through(self) -> int:
        return self._store.truncated_through

    def have_entries_from(self, start: int) -> bool:
        return has_entries_from(self._store, start)

    def resume(self, through: int) -> None:
        """Do nothing: entries cannot be held."""

    def hold(self, through: int) -> None:
        """Do nothing: entries cannot be held."""
