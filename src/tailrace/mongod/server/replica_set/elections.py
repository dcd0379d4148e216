"""Elect the primary of a set, and interrupt the work of a member that is no longer primary.

When a primary steps down, the next member that is reachable and has not stepped down recently is elected at
once. A majority of the members must be reachable; without one there is no primary until enough members are
back. The only member of a set is its own majority.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.mongod.server.replica_set.member import Member


class Elections:
    """The elections of one set, shared by all of its members."""

    def __init__(self, members: "list[Member]") -> None:
        self._members = members
        self._rests_until: dict[Member, float] = {}
        """Until when members that stepped down are not elected, in monotonic seconds."""
        self._last_primary = 0
        self._next: asyncio.Task[None] | None = None

    def step_down(self, member: "Member", seconds: float) -> None:
        """Make a primary a secondary; it is not elected again before that many seconds have passed."""
        if not member.replication.is_primary:
            raise CommandError(ErrorCode.NotWritablePrimary, "not primary so can't step down")
        self._rests_until[member] = time.monotonic() + seconds
        self._resign(member, "operation was interrupted because the primary stepped down")
        member.log.info("REPL", "Stepped down", term=member.replication.term, seconds=seconds)
        self.hold()

    async def step_up(self, member: "Member") -> None:
        """Elect a member now; the present primary becomes a secondary."""
        self.cancel()
        if member.replication.is_primary:
            return
        if member.is_cut_off or not self._has_majority():
            raise CommandError(ErrorCode.CommandFailed, "Election failed.")
        for other in self._members:
            if other.replication.is_primary:
                self._resign(other, "operation was interrupted because another member was elected")
        await self._elect(member)

    def hold(self) -> None:
        """Depose a primary that is cut off, and elect one if there is none."""
        self.cancel()
        for member in self._members:
            if member.replication.is_primary and not self._may_lead(member):
                self._resign(member, "operation was interrupted because the primary lost its majority")
                member.log.info("REPL", "Deposed", term=member.replication.term)
        if all(not member.replication.is_primary for member in self._members):
            self._next = asyncio.get_running_loop().create_task(self._elect_next())

    def cancel(self) -> None:
        """Cancel a pending election."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    async def _elect_next(self) -> None:
        """Elect the first member that may be primary; wait if all have stepped down."""
        count = len(self._members)
        in_turn = [self._members[(self._last_primary + step) % count] for step in range(count)]
        candidates = [member for member in in_turn if self._may_lead(member)]
        if not candidates:
            return  # a member that comes back calls `hold` again
        first = min(candidates, key=lambda member: self._rests_until.get(member, 0.0))
        await asyncio.sleep(max(0.0, self._rests_until.get(first, 0.0) - time.monotonic()))
        self._next = None
        await self._elect(first)

    async def _elect(self, member: "Member") -> None:
        self._rests_until.pop(member, None)
        await member.store.write(member.store.begin_term)
        if len(self._members) > 1:
            # Other primaries may have written in a session since; the store has their transaction numbers.
            member.sessions.forget_numbers()
        self._last_primary = self._members.index(member)
        member.replication.become_primary(member.store.term)
        member.log.info("REPL", "Elected primary", term=member.replication.term, member=member.address)

    def _resign(self, member: "Member", reason: str) -> None:
        member.replication.step_down()
        error = CommandError(ErrorCode.InterruptedDueToReplStateChange, reason)
        member.cursors.fail_all(error)
        member.transactions.abort_all(error)
        for context in list(member.operations.values()):
            if context.entry.is_read or context.entry.is_write:
                context.interrupt(error)

    def _may_lead(self, member: "Member") -> bool:
        return len(self._members) == 1 or (not member.is_cut_off and self._has_majority())

    def _has_majority(self) -> bool:
        reachable = sum(not member.is_cut_off for member in self._members)
        return len(self._members) == 1 or reachable > len(self._members) // 2
