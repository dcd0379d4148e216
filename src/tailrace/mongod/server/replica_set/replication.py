"""The state of a set and of its members: primary, term, topology version.

All members of a set share one `SetState`. Each has its own topology version, by which drivers follow it:
every change in the set increases it, and wakes streaming hellos.
"""

import asyncio
import time

from bson import Int64, ObjectId

_NO_TERM = -1


class SetState:
    """The state that the members of a set share."""

    def __init__(self, name: str | None, term: int = 1) -> None:
        """Without a name there is no set, and the server is always writable."""
        self.name = name
        self.term = term if name is not None else _NO_TERM
        self.elected_at = time.time()
        self.primary: Replication | None = None
        self.members: list[Replication] = []

    def announce(self) -> None:
        """Increase the topology version of all members."""
        for member in self.members:
            member.announce()


class Replication:
    """The state of one member."""

    def __init__(self, state: SetState) -> None:
        """The first member of a set is its primary until an election."""
        self.set = state
        self.is_shutting_down = False
        self.process_id = ObjectId()
        self._counter = 0
        self._changed = asyncio.Event()
        if not state.members:
            state.primary = self
        state.members.append(self)

    @property
    def set_name(self) -> str | None:
        """The set's name; None on a standalone server."""
        return self.set.name

    @property
    def is_replica_set(self) -> bool:
        return self.set.name is not None

    @property
    def is_primary(self) -> bool:
        """Whether the member takes writes."""
        return self.set.primary is self

    @property
    def term(self) -> int:
        return self.set.term

    @property
    def elected_at(self) -> float:
        """When the set's newest term began, in seconds since 1970."""
        return self.set.elected_at

    @property
    def counter(self) -> int:
        """How often the topology changed since the process started."""
        return self._counter

    def topology_version(self) -> dict[str, object]:
        """As `hello` and errors show it."""
        return {"processId": self.process_id, "counter": Int64(self._counter)}

    def election_id(self) -> ObjectId:
        """Increases with each term, so that drivers can distinguish an old primary from a new one."""
        return ObjectId(b"\x7f\xff\xff\xff" + self.term.to_bytes(8, "big"))

    def step_down(self) -> None:
        self.set.primary = None
        self.set.announce()

    def become_primary(self, term: int) -> None:
        self.set.primary = self
        self.set.term = term
        self.set.elected_at = time.time()
        self.set.announce()

    def shut_down(self) -> None:
        """Wake all that wait for a change, for the last time."""
        self.is_shutting_down = True
        self.announce()

    def announce(self) -> None:
        """Increase the topology version and wake all that wait for it."""
        self._counter += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, counter: int, seconds: float) -> None:
        """Wait until the topology version is not ``counter``, for at most that many seconds."""
        if self._counter != counter or self.is_shutting_down:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
