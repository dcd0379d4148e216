"""Who is primary, in which term, and what a member says of itself.

All members of a set share one `SetState`. Each has its own topology version, by which drivers follow it: it
grows with everything that changes in the set, and a streaming hello is woken by that.
"""

import asyncio
import time

from bson import Int64, ObjectId

_NO_TERM = -1


class SetState:
    """What the members of a set agree on."""

    def __init__(self, name: str | None, term: int = 1) -> None:
        """Without a name there is no set; such a server is always writable."""
        self.name = name
        self.term = term if name is not None else _NO_TERM
        self.elected_at = time.time()
        self.primary: Replication | None = None
        self.members: list[Replication] = []

    def announce(self) -> None:
        """Let all members tell that something has changed."""
        for member in self.members:
            member.announce()


class Replication:
    """What one member says of itself and the set, and when that changed."""

    def __init__(self, state: SetState) -> None:
        """The first member of a set is its primary until an election says something else."""
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
        """Whether the server is a member of a set."""
        return self.set.name is not None

    @property
    def is_primary(self) -> bool:
        """Whether the member takes writes."""
        return self.set.primary is self

    @property
    def term(self) -> int:
        """The set's newest term."""
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
        """Grows with each term, so that drivers can tell an old primary from a new one."""
        return ObjectId(b"\x7f\xff\xff\xff" + self.term.to_bytes(8, "big"))

    def step_down(self) -> None:
        """No longer primary."""
        self.set.primary = None
        self.set.announce()

    def become_primary(self, term: int) -> None:
        """Elected, in a later term."""
        self.set.primary = self
        self.set.term = term
        self.set.elected_at = time.time()
        self.set.announce()

    def shut_down(self) -> None:
        """Wake everyone who waits for a change; there will be no other."""
        self.is_shutting_down = True
        self.announce()

    def announce(self) -> None:
        """Something about the set has changed: wake who waits for that."""
        self._counter += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self, counter: int, seconds: float) -> None:
        """Wait until the topology is newer than ``counter``, but no longer than that many seconds."""
        if self._counter != counter or self.is_shutting_down:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return
