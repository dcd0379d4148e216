"""A group from outside: pause it, move it, see its lag and its dead letters."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from bson import Timestamp

from tailrace.client.flow import run, run_async
from tailrace.client.groups import aio, blocking
from tailrace.client.groups.control_flow import GroupFlow, GroupStatus
from tailrace.client.groups.delivery import DeadLetter, Delivery
from tailrace.client.groups.opening import Positions
from tailrace.client.options import Document


class ConsumerGroup(GroupFlow):
    """A consumer group that exists; a context manager."""

    def __init__(self, target: Any, group: str, *, positions: Positions = None) -> None:
        """``target`` and ``positions`` are those of `consume`."""
        super().__init__(blocking.SHELL, target, group, positions)
        run(self._opening())

    @classmethod
    def names(cls, target: Any, *, positions: Positions = None) -> list[str]:
        """The names of all groups that a place has."""
        with cls(target, "", positions=positions) as place:
            return run(place._store.groups())

    def close(self) -> None:
        run(self._closing())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pause(self) -> None:
        """Let the workers finish the events that they have, and wait."""
        run(self._pausing(True))

    def resume(self) -> None:
        """End a pause."""
        run(self._pausing(False))

    def seek(self, *, token: Document | None = None, time: Timestamp | None = None) -> None:
        """Let the whole group go on after a token, or at a cluster time.

        A worker may still handle the event that it has; its position is not committed any more.
        """
        run(self._seeking(token, time))

    def delete(self) -> None:
        """Remove the group, its positions and its dead letters; workers that still run raise."""
        run(self._deleting())

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The first dead letters, in the order of the stream."""
        return run(self._letters(limit))

    def replay(self, handle: Callable[[Delivery], object], limit: int | None = None) -> int:
        """Call ``handle`` with the dead letters, and remove those that it handles; return how many.

        A letter whose handler raises stays, with the new error.
        """
        return run(self._replaying(handle, limit))

    def status(self, count_seconds: float = 10.0) -> GroupStatus:
        """Where the group is; its lag is counted by reading the stream from its oldest position.

        That takes ``count_seconds`` at most; a group with more events has a lag of more.
        """
        return run(self._status(count_seconds))


class AsyncConsumerGroup(GroupFlow):
    """`ConsumerGroup` for asyncio, used as ``async with AsyncConsumerGroup(uri, "billing") as group:``."""

    def __init__(self, target: Any, group: str, *, positions: Positions = None) -> None:
        """``target`` and ``positions`` are those of `aconsume`."""
        super().__init__(aio.SHELL, target, group, positions)

    @classmethod
    async def names(cls, target: Any, *, positions: Positions = None) -> list[str]:
        """The names of all groups that a place has."""
        async with cls(target, "", positions=positions) as place:
            return await run_async(place._store.groups())

    async def close(self) -> None:
        await run_async(self._closing())

    async def __aenter__(self) -> Self:
        await run_async(self._opening())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def pause(self) -> None:
        """`ConsumerGroup.pause` for asyncio; so are the others."""
        await run_async(self._pausing(True))

    async def resume(self) -> None:
        await run_async(self._pausing(False))

    async def seek(self, *, token: Document | None = None, time: Timestamp | None = None) -> None:
        await run_async(self._seeking(token, time))

    async def delete(self) -> None:
        await run_async(self._deleting())

    async def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return await run_async(self._letters(limit))

    async def replay(self, handle: Callable[[Delivery], Awaitable[object]], limit: int | None = None) -> int:
        return await run_async(self._replaying(handle, limit))

    async def status(self, count_seconds: float = 10.0) -> GroupStatus:
        return await run_async(self._status(count_seconds))
