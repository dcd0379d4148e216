"""What the event log asks of a store that has an oplog.

The log is built on these protocols alone; the LMDB store (`mongod/store/store.py`) satisfies them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, TypeVar

from tailrace.events.promise import Promise
from tailrace.events.stages.lookups import Lookups

ListenerT = TypeVar("ListenerT", contravariant=True)


class Listeners(Protocol[ListenerT]):
    """Functions to call; the order is that in which they were added."""

    def append(self, listener: ListenerT, /) -> None: ...

    def remove(self, listener: ListenerT, /) -> None: ...


class OplogCommit(Protocol):
    """What became visible and durable at once."""

    @property
    def entries(self) -> Sequence[tuple[int, bytes]]:
        """New oplog entries with their cluster times, in order."""


class OplogState(Protocol):
    """One committed state of an oplog, which does not change while it is open."""

    def entry(self, ts: int, /) -> bytes | None:
        """Return the entry of exactly this cluster time."""

    def entries(self, after: int = 0) -> Iterator[tuple[int, bytes]]:
        """Return the entries after a cluster time, in order."""

    def oldest_entry(self) -> tuple[int, bytes] | None:
        """Return the first entry that is left."""

    def truncated_through(self) -> int:
        """Return the cluster time of the newest entry that was removed."""


CommitListener: TypeAlias = Callable[[OplogCommit], None]


class OplogStore(Protocol):
    """A store with an oplog that is written to, read, and truncated.

    Listeners are called in the event loop's thread.
    """

    held_through: int | None
    """The cluster time before which entries may be removed, as a history holds them; None for no limit."""

    @property
    def on_commit(self) -> Listeners[CommitListener]:
        """Called for every commit, before its writers get their results."""

    @property
    def on_settled(self) -> Listeners[Callable[[], None]]:
        """Called whenever `promised` may have moved, also after jobs that changed nothing."""

    @property
    def set_id(self) -> object:
        """The id that the replica set has for life; its text names it."""

    @property
    def last_committed(self) -> int:
        """The cluster time of the newest entry."""

    @property
    def truncated_through(self) -> int:
        """The cluster time of the newest entry that was removed."""

    @property
    def promised(self) -> Promise:
        """The cluster time up to which listeners have got all entries; it moves with the clock when idle."""

    @property
    def oplog_size(self) -> int:
        """The size in bytes that the oplog should not exceed."""

    @property
    def oplog_bytes(self) -> int:
        """The size in bytes that the oplog has."""

    @property
    def lookups(self) -> Lookups:
        """What stages look up, answered from the newest state."""

    def snapshot(self) -> AbstractContextManager[OplogState]:
        """Return the newest committed state; to be closed soon."""

    def hold_transaction(self, began: int, committed: int) -> None:
        """Remove no entry of a transaction before a history holds its commit."""


class Clock(Protocol):
    """The clock that the stores of a cluster share."""

    @property
    def now(self) -> int:
        """The newest cluster time given out or received."""
