"""The worker of a group for blocking code."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self, Unpack

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tailrace.client.flow import run
from tailrace.client.groups.consumer import ConsumerFlow, ConsumerParts, Shell
from tailrace.client.groups.delivery import Delivery
from tailrace.client.groups.handling import Retries, replaying, running
from tailrace.client.groups.membership import Membership
from tailrace.client.groups.opening import GroupKeywords, preparing
from tailrace.client.options import Pipeline
from tailrace.client.sync import watch
from tailrace.errors import TailraceError

SHELL: Final = Shell(MongoClient, watch, time.sleep, lambda use: use())
_LOG: Final = logging.getLogger("tailrace.groups")


def consume(target: Any, group: str, pipeline: Pipeline = (), **options: Unpack[GroupKeywords]) -> "Consumer":
    """Join a consumer group; the stream is shared by all workers of the group.

    ``target`` is a connection string, with the database or collection in ``ns``, or what `watch` accepts. The
    options are those of `watch`; a start is used only when the group is created. ``positions`` is where the
    group's positions are kept: a connection string with a collection, PyMongo's collection, the path of a
    file for the workers of one machine, or nothing for a Tailrace server, which keeps them itself.

    With ``snapshot`` a new group begins with the documents that there are: each is an event of the type
    `read`, and the changes since come after it.

    ``slots`` is the number of parts of a new group. A worker that sends no heartbeat for ``lease_seconds``
    has stopped. Acknowledged events are committed within ``save_seconds``. A server may be unreachable for
    ``max_outage`` seconds, by default for any time.
    """
    opened: list[Any] = []
    try:
        consumer = Consumer(run(preparing(SHELL, target, group, pipeline, options, opened)))
        consumer._join()
    except BaseException:
        for client in opened:
            client.close()
        raise
    return consumer


class Consumer(ConsumerFlow):
    """A worker of a group: an iterator of deliveries, and a context manager that leaves the group.

    In a loop, asking for the next delivery acknowledges the one before it.
    """

    def __init__(self, parts: ConsumerParts) -> None:
        super().__init__(parts)
        self._heart = _Heart(self._membership)

    def _join(self) -> None:
        run(self._opening())
        self._heart.start()

    def __iter__(self) -> Iterator[Delivery]:
        return self

    def __next__(self) -> Delivery:
        self.ack()
        found = self.fetch(1)
        if not found:
            raise StopIteration
        return found[0]

    def fetch(self, most: int = 100) -> list[Delivery]:
        """Wait for events, and return those that have arrived; `ack` them before the next call.

        Empty only after `stop`.
        """
        return run(self._fetching(most))

    def run(
        self,
        handle: Callable[[Delivery], object],
        *,
        max_events: int | None = None,
        retries: Retries | None = None,
    ) -> int:
        """Call ``handle`` with each delivery, and acknowledge it afterwards; return how many were handled.

        If the handler raises, its error is raised and the event comes again, unless ``retries`` says to
        try more often, and to store the event as a dead letter then. It returns after `stop`.
        """
        return run(running(self, handle, retries or Retries(), max_events))

    def replay(self, handle: Callable[[Delivery], object], limit: int | None = None) -> int:
        """Call ``handle`` with the dead letters, and remove those that it handles; return how many."""
        return run(replaying(self.store, self.group, handle, limit))

    def commit(self) -> None:
        """Store the position of what is acknowledged, now."""
        run(self._committing())

    def close(self) -> None:
        """Commit, leave the group, and close what `consume` has opened; a second call does nothing."""
        if self._heart.stop():
            self.stop()
            try:
                run(self._closing())
            finally:
                for client in self._parts.clients:
                    client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Heart(threading.Thread):
    """Sends heartbeats while a handler runs."""

    def __init__(self, membership: Membership) -> None:
        super().__init__(name="tailrace-heartbeat", daemon=True)
        self._membership = membership
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(self._membership.beat_seconds):
            try:
                run(self._membership.beating())
            except (PyMongoError, TailraceError) as error:
                # The worker notices that its lease is over, and raises what is still wrong then.
                _LOG.warning("a heartbeat of a consumer group failed: %s", error)

    def stop(self) -> bool:
        """Whether it was running."""
        if self._over.is_set():
            return False
        self._over.set()
        self.join()
        return True
