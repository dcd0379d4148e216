"""The state of the only member: primary, or stepped down for a while, in which term.

Drivers follow a member by its topology version; a streaming hello is woken whenever it changes.
"""

import asyncio
import time

from bson import Int64, ObjectId

_NO_TERM = -1


class Replication:
    """What the member says of itself, and when that changed."""

    def __init__(self, set_name: str | None, term: int = 1) -> None:
        """Without a name there is no set; such a server is always writable."""
        self.set_name = set_name
        self.term = term if set_name is not None else _NO_TERM
        self.is_primary = True
        self.is_shutting_down = False
        self.elected_at = time.time()
        self.process_id = ObjectId()
        self._counter = 0
        self._changed = asyncio.Event()

    @property
    def is_replica_set(self) -> bool:
        """Whether the server is a member of a set."""
        return self.set_name is not None

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
        self.is_primary = False
        self._announce()

    def become_primary(self, term: int) -> None:
        """Elected again, in a later term."""
        self.is_primary = True
        self.term = term
        self.elected_at = time.time()
        self._announce()

    def shut_down(self) -> None:
        """Wake everyone who waits for a change; there will be no other."""
        self.is_shutting_down = True
        self._announce()

    def _announce(self) -> None:
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
