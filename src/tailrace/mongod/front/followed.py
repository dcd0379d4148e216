"""What is followed of a source: its oplog, or that of each shard, as one event log."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

from tailrace.events.stages.lookups import Rebuild
from tailrace.log.event_log import EventLog
from tailrace.log.oplogs import Oplogs
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.front.questions import Questions
from tailrace.mongod.front.recorded import RecordedHead, RecordedStore
from tailrace.mongod.front.source_head import SourceHead
from tailrace.mongod.front.source_oplog import SourceOplog
from tailrace.mongod.front.source_store import SourceStore
from tailrace.mongod.front.tail import SourceTail
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.sources.recorded.via import Via

Failed: TypeAlias = Callable[[BaseException], None]


class Followed(ABC):
    """`start` is called before anything else is; all methods in the event loop's thread."""

    rebuild: Rebuild | None = None
    """Finds pre-images before the source is asked for them; set before `start`."""

    def __init__(self, source: FrontedDeployment, questions: Questions, log: Logbook, failed: Failed) -> None:
        self.source = source
        self.questions = questions
        self._log = log
        self._failed = failed

    event_log: EventLog

    @abstractmethod
    async def start(self) -> None:
        """Begin to follow; raises `UsageError` if that is not possible."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    def oplogs(self) -> Oplogs:
        """The oplogs as a history needs them that is built from them."""

    @property
    @abstractmethod
    def through(self) -> int:
        """The cluster time up to which everything was delivered."""

    @property
    @abstractmethod
    def is_away(self) -> bool:
        """Whether the source, or a part of it, does not answer at present."""

    @abstractmethod
    async def reach(self, time: int) -> None:
        """Wait until everything up to a cluster time was delivered."""


class FollowedSet(Followed):
    """A replica set."""

    _store: SourceStore
    _tail: SourceTail | None = None

    async def start(self) -> None:
        shard = await asyncio.to_thread(self.source.open_shard, "")
        if self.source.via is Via.STREAM:
            self._store = store = RecordedStore(shard, self.questions, rebuild=self.rebuild)
            head: SourceHead = RecordedHead(store)
        else:
            self._store = SourceStore(shard, self.questions, rebuild=self.rebuild)
            head = SourceHead(self._store)
        await asyncio.to_thread(self._store.refresh_oldest)
        self.event_log = head
        self._tail = SourceTail(self._store, head, self._log, self._failed)
        self._tail.start()

    async def stop(self) -> None:
        if self._tail is not None:
            await self._tail.stop()

    def oplogs(self) -> Oplogs:
        return SourceOplog(self._store, self.source.last_applied)

    @property
    def through(self) -> int:
        return self._store.last_committed

    @property
    def is_away(self) -> bool:
        return self._store.is_away

    async def reach(self, time: int) -> None:
        await self._store.reach(time)
