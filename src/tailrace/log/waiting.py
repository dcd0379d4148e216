"""Wake the streams that wait, and only those that have something to read.

Waiting streams are grouped by what they watch. A new item is offered to those that watch its collection, its
database or everything, and each is woken only if its filter lets the item through. A thousand streams wait
and are woken many times a second, so a wait costs two entries in dicts and a share of a timer.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterable
from time import monotonic
from typing import Final, TypeAlias, TypeVar

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.oplog_entry import PLAIN, Head, OplogEntry
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.lake.deferred_entries import is_deferred
from tailrace.pacing import set_pacer

_EVERYTHING: Final = ""
_RELEASED_AT_ONCE: Final = 50
"""Streams that continue before the loop has its turn."""
_STEP: Final = 0.005
"""Seconds by which a wait may be longer than requested, so that one timer can end many."""

_BRIEF: Final = 0.001
"""Seconds after which a stream is woken without testing its filter, from then on always."""

T = TypeVar("T")
Future: TypeAlias = "asyncio.Future[None]"


class _TakesLong(BaseException):
    """A filter takes too long to be tested for a stream that only waits."""


class _Brief:
    """The pacer of tests that nobody can interrupt: those of many streams, while a commit is delivered."""

    def __init__(self) -> None:
        self._end = monotonic() + _BRIEF

    def look(self) -> None:
        if monotonic() >= self._end:
            raise _TakesLong

    def aside(self, _work: Callable[[], T]) -> T:
        raise _TakesLong


class Waiter:
    """One stream that waits now and then for something it can see."""

    __slots__ = ("_is_slow", "future", "is_woken", "key", "visible")

    def __init__(self, scope: Scope, visible: EntryFilter) -> None:
        self.key = key_of(scope)
        self.visible = visible
        self.future: Future | None = None
        """What its stream awaits while it waits."""
        self.is_woken = False
        """Whether there was something, perhaps after its time was over."""
        self._is_slow = False

    def may_see(self, test: Callable[[T], bool], item: T) -> bool:
        """Whether its filter lets something through; True if that is for the stream itself to find out."""
        if self._is_slow:
            return True
        before = set_pacer(_Brief())
        try:
            return test(item)
        except CommandError:
            return True  # it will get the same error, and report it
        except _TakesLong:
            self._is_slow = True
            return True
        finally:
            set_pacer(before)

    def release(self) -> None:
        """Let its stream continue."""
        if self.future is not None and not self.future.done():
            self.future.set_result(None)


def key_of(scope: Scope) -> str:
    """Return the group of a scope: a namespace, a database, or everything."""
    if scope.kind is ScopeKind.COLLECTION:
        return f"{scope.db}.{scope.coll}"
    return scope.db if scope.kind is ScopeKind.DATABASE else _EVERYTHING


class Waiters:
    """All streams that wait."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Waiter, None]] = {}
        self._by_end: dict[int, dict[Future, None]] = {}
        self._woken: deque[Waiter] = deque()
        self._is_releasing = False
        self._loop: asyncio.AbstractEventLoop

    def __bool__(self) -> bool:
        return bool(self._by_key)

    async def wait(self, waiter: Waiter, seconds: float) -> bool:
        """Wait until there is something this one can see; return whether it came in time."""
        loop = self._loop = asyncio.get_running_loop()
        future: Future = loop.create_future()
        waiter.future = future
        waiter.is_woken = False
        waiting = self._by_key.setdefault(waiter.key, {})
        waiting[waiter] = None
        ending = self._ending_with(loop, loop.time() + seconds)
        ending[future] = None
        try:
            await future
        finally:
            ending.pop(future, None)
            del waiting[waiter]
            if not waiting:
                del self._by_key[waiter.key]
        return waiter.is_woken

    def _ending_with(self, loop: asyncio.AbstractEventLoop, end: float) -> dict[Future, None]:
        """The waits that end with the same timer as one that lasts until ``end``."""
        step = int(end / _STEP) + 1
        ending = self._by_end.get(step)
        if ending is None:
            ending = self._by_end[step] = {}
            loop.call_at(step * _STEP, self._expire, step)
        return ending

    def _expire(self, step: int) -> None:
        for future in self._by_end.pop(step):
            if not future.done():
                future.set_result(None)

    def offer(self, entry: OplogEntry, heads: Collection[Head] | None) -> None:
        """Wake the streams that may see an entry; ``heads`` are those of a transaction's operations."""
        head = entry.head
        if head.op in ("i", "u", "d") and not head.holds_views:
            self._wake(self._watching((head.ns,)), entry)
        elif heads is not None and all(inner.op != "c" for inner in heads):
            self._wake(self._watching({inner.ns for inner in heads}), entry)
        else:
            # Commands name collections in many ways and are rare: all streams are asked.
            self._wake(self._all(), entry)

    def offer_events(self, events: Iterable[ChangeEvent]) -> None:
        """Wake the streams that can see one of some events."""
        for event in events:
            head = event.entry.head
            if head.op in ("i", "u", "d") and not head.holds_views:
                candidates = self._watching((head.ns,))
            else:
                candidates = self._all()
            for waiter in candidates:
                if not waiter.is_woken and _sees(waiter, event):
                    waiter.is_woken = True
                    self._woken.append(waiter)
        self._release()

    def wake_all(self) -> None:
        """Wake all streams."""
        for waiter in self._all():
            if not waiter.is_woken:
                waiter.is_woken = True
                self._woken.append(waiter)
        self._release()

    def _all(self) -> list[Waiter]:
        return [waiter for waiting in self._by_key.values() for waiter in waiting]

    def _watching(self, namespaces: Iterable[str]) -> list[Waiter]:
        keys = {_EVERYTHING, *namespaces, *(ns.partition(".")[0] for ns in namespaces)}
        return [waiter for key in keys for waiter in self._by_key.get(key, ())]

    def _wake(self, candidates: Iterable[Waiter], entry: OplogEntry) -> None:
        extras = entry.extras
        is_usual = extras is PLAIN or not (extras.from_migrate or extras.is_timeseries)
        for waiter in candidates:
            if waiter.is_woken:
                continue
            decision = waiter.visible.sees_plain(entry.head) if is_usual else None
            if decision is None:
                decision = waiter.may_see(waiter.visible.sees, entry)
            if decision:
                waiter.is_woken = True
                self._woken.append(waiter)
        self._release()

    def _release(self) -> None:
        if self._woken and not self._is_releasing:
            self._release_some()

    def _release_some(self) -> None:
        """Release some of the woken streams, and the next ones after the loop has had its turn.

        Otherwise everything else, such as the writer's acknowledgement, would wait for a thousand streams.
        """
        woken = self._woken
        for _ in range(min(_RELEASED_AT_ONCE, len(woken))):
            woken.popleft().release()
        self._is_releasing = bool(woken)
        if woken:
            self._loop.call_soon(self._release_some)


def _sees(waiter: Waiter, event: ChangeEvent) -> bool:
    if is_deferred(event):
        return waiter.may_see(waiter.visible.sees, event.entry)
    return waiter.may_see(waiter.visible.may_show, event)
