"""The event loop of a server that has its own process.

asyncio handles all ready sockets before anything else, such as timers or a commit to be acknowledged.
With a thousand busy clients that takes long. This loop handles a few sockets at a time; the system returns
the others first the next time, so each gets its turn. When nothing is ready, computations get theirs
(`turns.py`).
"""

import asyncio
import select
import selectors
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tailrace.mongod.server.net.turns import Turns
from tailrace.pacing import set_pacer

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_SOCKETS_AT_ONCE: Final = 50
_SWITCH_SECONDS: Final = 0.0002
"""How long a busy event loop keeps the writer's thread waiting; Python's default is 25 times longer."""
_WRITER_SECONDS: Final = 0.001
"""How long computations wait for a busy writer before its state is checked again."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A fair loop where the system has epoll, else an ordinary one."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    return FairLoop() if hasattr(select, "epoll") else asyncio.new_event_loop()


class FairLoop(asyncio.SelectorEventLoop):
    """A loop that gives turns to computations."""

    def __init__(self) -> None:
        selector = FairSelector()
        self.turns = selector.turns
        super().__init__(selector)

    def run_forever(self) -> None:
        """Run until it is stopped; meanwhile its turns are the pacer of the thread."""
        before = set_pacer(self.turns)
        try:
            super().run_forever()
        finally:
            set_pacer(before)


class FairSelector(selectors.BaseSelector):
    """Like `selectors.EpollSelector`, but `select` returns a limited number of ready file objects."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.turns = Turns(self._is_ready)

    def register(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        number = _number_of(fileobj)
        if number in self._keys:
            raise KeyError(f"{fileobj!r} (FD {number}) is already registered")
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._epoll.register(number, _mask_of(events))
        self._keys[number] = key
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        key = self._keys.pop(_number_of(fileobj))
        with suppress(OSError):  # it was closed, which ends the watch
            self._epoll.unregister(key.fd)
        return key

    def modify(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        key = self._keys[_number_of(fileobj)]
        if events != key.events:
            self._epoll.modify(key.fd, _mask_of(events))
        changed = self._keys[key.fd] = key._replace(events=events, data=data)
        return changed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Some of the file objects that are ready; waits until one is, or gives somebody a turn."""
        seconds = -1 if timeout is None else max(timeout, 0)
        turns = self.turns
        if not turns.is_wanted:
            return self._poll(seconds)
        ready = self._poll(0)
        if turns.is_overdue:
            turns.give(undisturbed=True)
        elif not ready and seconds:
            if turns.is_writer_busy:
                return self._poll(_WRITER_SECONDS if timeout is None else min(timeout, _WRITER_SECONDS))
            turns.give()
        return ready

    def _is_ready(self) -> bool:
        """Whether a file object is ready; it is still ready afterwards."""
        return bool(self._epoll.poll(0, 1))

    def _poll(self, seconds: float) -> list[tuple[selectors.SelectorKey, int]]:
        try:
            found = self._epoll.poll(seconds, _SOCKETS_AT_ONCE)
        except InterruptedError:
            return []
        ready = []
        for number, mask in found:
            key = self._keys.get(number)
            if key is not None:
                events = (selectors.EVENT_READ if mask & ~select.EPOLLOUT else 0) | (
                    selectors.EVENT_WRITE if mask & ~select.EPOLLIN else 0
                )
                ready.append((key, events & key.events))
        return ready

    def get_map(self) -> "Mapping[FileDescriptorLike, selectors.SelectorKey]":
        return {key.fileobj: key for key in self._keys.values()} | dict(self._keys)

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        return self._keys[_number_of(fileobj)]

    def close(self) -> None:
        self._epoll.close()
        self._keys.clear()


def _number_of(fileobj: "FileDescriptorLike") -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


def _mask_of(events: int) -> int:
    return (select.EPOLLIN if events & selectors.EVENT_READ else 0) | (
        select.EPOLLOUT if events & selectors.EVENT_WRITE else 0
    )
