"""A cluster that is followed: a tail for each shard, merged by their promises.

A shard that has nothing to write does not move by itself. So whenever one has written, the others are asked
to reach its time, and the router for its list of shards as of that time. Streams see everything up to it
afterwards: no shard can write before that time any more, and none can have joined before it.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from tailrace.errors import TailraceError
from tailrace.events.cluster_time import from_timestamp
from tailrace.log.event_log import EventLog
from tailrace.log.merged_log import MergedLog
from tailrace.log.oplogs import Oplogs
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.front.followed import Failed, Followed
from tailrace.mongod.front.questions import Questions
from tailrace.mongod.front.source_head import SourceHead
from tailrace.mongod.front.source_oplog import SourceShardOplogs
from tailrace.mongod.front.source_store import SourceStore
from tailrace.mongod.front.tail import COMPONENT, SourceTail
from tailrace.mongod.front.time_waiters import TimeWaiters
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.pipeline.failure import failure_of
from tailrace.sources.in_parallel import asked

_PAUSE: Final = 0.2
_REST: Final = 0.005
"""Seconds between two rounds of questions; what is written meanwhile is promised by the next one."""


@dataclass(frozen=True, slots=True)
class _Shard:
    store: SourceStore
    tail: SourceTail


class FollowedCluster(Followed):
    now = 0
    """For the merged log, whose newest promise is the clock of streams here."""

    def __init__(self, source: FrontedDeployment, questions: Questions, log: Logbook, failed: Failed) -> None:
        super().__init__(source, questions, log, failed)
        self.event_log: EventLog
        self._merged = MergedLog(self, self._document)
        self.event_log = self._merged
        self._shards: dict[str, _Shard] = {}
        self._listed_through = 0
        """The cluster time as of which the list of shards is known."""
        self._news = asyncio.Event()
        self._waiters = TimeWaiters()
        self._is_away = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        members = self.source.list.members
        for name in members.present():
            await self._open(name, 0)
        gone = [member.left for member in members.by_name.values() if member.left is not None]
        for left in filter(None, (*gone, self.source.list.unknown_through)):
            self._merged.lose(left)
        await self._promise(self._wanted())
        self._task = asyncio.get_running_loop().create_task(self._follow())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.gather(*(shard.tail.stop() for shard in self._shards.values()))

    def oplogs(self) -> Oplogs:
        return SourceShardOplogs(self.source.identity, self._merged, self.source.last_applied)

    @property
    def through(self) -> int:
        return self._merged.newest

    @property
    def is_away(self) -> bool:
        return self._is_away or any(shard.store.is_away for shard in self._shards.values())

    async def reach(self, time: int) -> None:
        if time > self._merged.newest:
            self._news.set()
            await self._waiters.wait(time)

    def _document(self, *question: Any) -> bytes | None:
        """A document on any shard: all ask the router."""
        store = next(iter(self._shards.values())).store
        return store.lookups.document(*question)

    # -- shards that join and leave -----------------------------------------------------------------------

    async def _open(self, name: str, joined: int) -> None:
        opened = await asyncio.to_thread(self.source.open_shard, name)
        store = SourceStore(opened, self.questions, self._listed_through, self.rebuild)
        await asyncio.to_thread(store.refresh_oldest)
        head = SourceHead(store)
        tail = SourceTail(store, head, self._log, self._failed)
        self._shards[name] = _Shard(store, tail)
        self._merged.add(head, store, joined)
        store.on_settled.append(self._settled)
        tail.start()

    def _settled(self) -> None:
        self._news.set()
        self._waiters.wake(self._merged.newest)

    async def _end(self, name: str, left: int) -> None:
        """End the log of a shard that has left, once everything was delivered that it has up to then."""
        shard = self._shards[name]
        if shard.store.promised < left:
            newest = await asyncio.to_thread(shard.store.source.newest_time)
            shard.store.limit = left
            shard.store.promise_idle(left, newest)
        if shard.store.promised >= left:
            shard.store.limit = left
            self._merged.remove(name)
            shard.store.on_settled.remove(self._settled)
            del self._shards[name]
            await shard.tail.stop()
            self._log.info(COMPONENT, "A shard has left the source", "tail", shard=name)

    # -- promises -------------------------------------------------------------------------------------------

    def _wanted(self) -> int:
        """The newest time that a shard has, or that somebody waits for."""
        return max(self._waiters.latest, *(shard.store.last_committed for shard in self._shards.values()))

    async def _follow(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                wanted = self._wanted()
                if wanted <= self._merged.newest:
                    continue
                try:
                    await self._promise(wanted)
                except TailraceError as error:
                    self._note_away(error)
                    self._news.set()
                    await asyncio.sleep(_PAUSE)
                else:
                    self._is_away = False
                    await asyncio.sleep(_REST)
        except Exception as error:
            self._failed(error)

    async def _promise(self, time: int) -> None:
        """Show streams everything up to a time that a shard has reached."""
        clock = await asyncio.to_thread(self._listed_at, time)
        members = self.source.list.members
        for name, member in members.by_name.items():
            if member.left is None and name not in self._shards:
                self._log.info(COMPONENT, "A shard has joined the source", "tail", shard=name)
                await self._open(name, member.joined)
            elif member.left is not None and name in self._shards:
                await self._end(name, member.left)
        late = [
            shard.store
            for name, shard in self._shards.items()
            if members[name].left is None and shard.store.last_committed < time
        ]
        answers = await asyncio.to_thread(asked, lambda store: _reached(store, time, clock), late)
        self._listed_through = max(self._listed_through, time)
        for name, shard in self._shards.items():
            if members[name].left is None:
                shard.store.limit = self._listed_through
        for store, (through, newest) in zip(late, answers, strict=True):
            store.promise_idle(through, newest)
        for shard in tuple(self._shards.values()):
            shard.store.settle()

    def _listed_at(self, time: int) -> Mapping[str, Any]:
        """Refresh the list of shards as of a time; returns a clock that has reached it. In another thread."""
        clock = self.source.clock()
        for shard in tuple(self._shards.values()):
            if from_timestamp(clock["clusterTime"]) >= time:
                break
            clock = max(clock, shard.store.source.oplog.hello()["$clusterTime"], key=_time_of)
        self.source.refresh_list(clock, time)
        return clock

    def _note_away(self, error: TailraceError) -> None:
        failure = failure_of(error)
        if not failure.is_source_away:
            raise error
        if not self._is_away:
            self._is_away = True
            self._log.warning(
                COMPONENT, "The source is away; streams wait", "promises", error=failure.sentence
            )


def _time_of(clock: Mapping[str, Any]) -> int:
    return from_timestamp(clock["clusterTime"])


def _reached(store: SourceStore, time: int, clock: Mapping[str, Any]) -> tuple[int, int]:
    """What a shard promises, and the newest entry that it has by then."""
    through = store.source.oplog.reach(time, clock)
    return through, store.source.newest_time()
