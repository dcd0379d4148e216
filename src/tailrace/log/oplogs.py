"""The oplogs that a history is built from: that of a replica set, or those of all shards of a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from tailrace.errors import CommandError
from tailrace.events.commit_entry import is_commit, may_be_commit
from tailrace.events.oplog_entry import OplogEntry, parse_entry
from tailrace.events.stages.lookups import Lookups
from tailrace.log.head import has_entries_from
from tailrace.log.merged_log import MergedLog
from tailrace.log.ports import OplogState, OplogStore


class Oplogs(ABC):
    """What the log of a history asks of them."""

    identity: str
    """The id that the deployment has for life."""
    lookups: Mapping[str, Lookups]

    @property
    @abstractmethod
    def stores(self) -> Iterable[OplogStore]:
        """The stores that have them."""

    @property
    @abstractmethod
    def now(self) -> int:
        """The cluster time after which everything comes that has not happened yet."""

    @property
    @abstractmethod
    def truncated_through(self) -> int:
        """The cluster time of the newest entry that was removed from one of them."""

    @abstractmethod
    def have_entries_from(self, start: int) -> bool:
        """Return whether they have everything from a cluster time on."""

    def have_reached(self, time: int) -> bool:
        """Return whether a history of them can go up to a cluster time."""
        return time <= self.now

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest entry in any of them."""
        return max(store.last_committed for store in self.stores)

    @property
    def outgrown(self) -> float:
        """The ratio of the largest oplog's size to its limit."""
        return max(store.oplog_bytes / store.oplog_size for store in self.stores)

    def resume(self, through: int) -> None:
        """Hold what a history needs that was built up to a cluster time earlier.

        A transaction that was prepared before that time and committed after it has entries on both sides.
        """
        for store in self.stores:
            with store.snapshot() as snapshot:
                for ts, raw in snapshot.entries(through):
                    prepared = _prepared_for(snapshot, raw)
                    if prepared is not None:
                        began = _first_of_transaction(snapshot, prepared, prepared.ts)
                        store.hold_transaction(began, ts)

    def hold(self, through: int) -> None:
        """Remove no entry from now on that a reader needs who continues at a cluster time."""
        for store in self.stores:
            store.held_through = removable_before(store, through)


class StoreOplog(Oplogs):
    """The oplog of a replica set."""

    def __init__(self, store: OplogStore) -> None:
        self.identity = str(store.set_id)
        self.lookups = {"": store.lookups}
        self._store = store

    @property
    def stores(self) -> Iterable[OplogStore]:
        return (self._store,)

    @property
    def now(self) -> int:
        """The newest commit."""
        return self._store.last_committed

    @property
    def truncated_through(self) -> int:
        return self._store.truncated_through

    def have_entries_from(self, start: int) -> bool:
        return has_entries_from(self._store, start)


class ShardOplogs(Oplogs):
    """The oplogs of the shards of a cluster, including those that have left and are still read."""

    def __init__(self, identity: str, log: MergedLog) -> None:
        self.identity = identity
        self.lookups = log.lookups
        self._log = log

    @property
    def stores(self) -> Iterable[OplogStore]:
        return self._log.stores

    @property
    def now(self) -> int:
        return self._log.now

    @property
    def truncated_through(self) -> int:
        return self._log.truncated_through

    def have_entries_from(self, start: int) -> bool:
        """Return whether all shards have everything from a cluster time on, and none has left since."""
        try:
            self._log.check_start(start)
        except CommandError:
            return False
        return True


def removable_before(store: OplogStore, through: int) -> int:
    """Return the cluster time before which a reader who continues at ``through`` needs no entry.

    If the entry at ``through`` is part of a transaction, that is where the transaction begins.
    """
    with store.snapshot() as snapshot:
        raw = snapshot.entry(through)
        return through if raw is None else _first_of_transaction(snapshot, parse_entry(raw), through)


def _first_of_transaction(snapshot: OplogState, entry: OplogEntry, place: int) -> int:
    """Where the transaction of an entry begins; ``place`` if it is part of none."""
    while entry.head.op == "c" and entry.command == "applyOps" and not entry.extras.multi_op_type:
        place = entry.ts
        previous = entry.extras.previous
        raw = None if previous is None or previous.is_null else snapshot.entry(previous.ts)
        if raw is None:
            break
        entry = parse_entry(raw)
    return place


def _prepared_for(snapshot: OplogState, raw: bytes) -> OplogEntry | None:
    """The entry that prepares what this one commits; None if it commits nothing."""
    if not may_be_commit(raw):
        return None
    entry = parse_entry(raw)
    previous = entry.extras.previous
    if not is_commit(entry) or previous is None:
        return None
    found = snapshot.entry(previous.ts)
    return None if found is None else parse_entry(found)
