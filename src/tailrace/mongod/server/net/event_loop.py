"""The event loop of a server that runs as a process of its own.

asyncio takes all sockets that have something before it looks at anything else: a commit that is to be
acknowledged, a timer. With a thousand busy clients that is a long time. This loop takes some sockets at a
time; the system keeps the others in line, so all have their turn.
"""

import asyncio
import select
import selectors
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_SOCKETS_AT_ONCE: Final = 50
_SWITCH_SECONDS: Final = 0.0005
"""How long a busy event loop keeps the writer's thread waiting; Python's own choice is ten times that."""


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that is fair, where the system has epoll; else an ordinary one."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    if not hasattr(select, "epoll"):
        return asyncio.new_event_loop()
    return asyncio.SelectorEventLoop(FairSelector())


class FairSelector(selectors.BaseSelector):
    """Like `selectors.EpollSelector`, but `select` gives a limited number of those that are ready."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        """Begin to watch a file object."""
        number = _number_of(fileobj)
        if number in self._keys:
            raise KeyError(f"{fileobj!r} (FD {number}) is already registered")
        key = selectors.SelectorKey(fileobj, number, events, data)
        self._epoll.register(number, _mask_of(events))
        self._keys[number] = key
        return key

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """No longer watch a file object."""
        key = self._keys.pop(_number_of(fileobj))
        with suppress(OSError):  # if it was closed before, the system has forgotten it
            self._epoll.unregister(key.fd)
        return key

    def modify(
        self, fileobj: "FileDescriptorLike", events: int, data: object = None
    ) -> selectors.SelectorKey:
        """Watch a file object for other events from now on."""
        key = self._keys[_number_of(fileobj)]
        if events != key.events:
            self._epoll.modify(key.fd, _mask_of(events))
        changed = self._keys[key.fd] = key._replace(events=events, data=data)
        return changed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Some of the file objects that are ready; waits if none is."""
        seconds = -1 if timeout is None else max(timeout, 0)
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
        """What is watched, by file object or number."""
        return {key.fileobj: key for key in self._keys.values()} | dict(self._keys)

    def get_key(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        """What is known of a file object; raises KeyError if it is not watched."""
        return self._keys[_number_of(fileobj)]

    def close(self) -> None:
        """Give everything back."""
        self._epoll.close()
        self._keys.clear()


def _number_of(fileobj: "FileDescriptorLike") -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()


def _mask_of(events: int) -> int:
    return (select.EPOLLIN if events & selectors.EVENT_READ else 0) | (
        select.EPOLLOUT if events & selectors.EVENT_WRITE else 0
    )
