"""Elections: which member of a set is primary, and what a member does that stops being it.

A primary that steps down is followed at once by the next member that can be one: it is not cut off, and it
did not step down itself a short while ago. A majority of the members has to be reachable; without one there
is no primary until enough of them are back. The only member of a set is its own majority.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.mongod.server.replica_set.member import Member


class Elections:
    """The elections of one set; all of its members share them."""

    def __init__(self, members: "list[Member]") -> None:
        self._members = members
        self._rests_until: dict[Member, float] = {}
        """Members that stepped down, and until when they do not stand for election, in monotonic seconds"""
        self._last_primary = 0
        self._next: asyncio.Task[None] | None = None

    def step_down(self, member: "Member", seconds: float) -> None:
        """Let a primary stop being it; it is not elected again before that many seconds are over."""
        if not member.replication.is_primary:
            raise CommandError(ErrorCode.NotWritablePrimary, "not primary so can't step down")
        self._rests_until[member] = time.monotonic() + seconds
        self._resign(member, "operation was interrupted because the primary stepped down")
        member.log.info("REPL", "Stepped down", term=member.replication.term, seconds=seconds)
        self.hold()

    async def step_up(self, member: "Member") -> None:
        """Let a member be elected now; who was primary before is it no longer."""
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
        """Find a primary if there is none and one can be found, and depose one that is cut off."""
        self.cancel()
        for member in self._members:
            if member.replication.is_primary and not self._may_lead(member):
                self._resign(member, "operation was interrupted because the primary lost its majority")
                member.log.info("REPL", "Deposed", term=member.replication.term)
        if all(not member.replication.is_primary for member in self._members):
            self._next = asyncio.get_running_loop().create_task(self._elect_next())

    def cancel(self) -> None:
        """Give up an election that was to be held."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    async def _elect_next(self) -> None:
        """Elect the first member that may be primary; wait for those that have stepped down."""
        count = len(self._members)
        in_turn = [self._members[(self._last_primary + step) % count] for step in range(count)]
        candidates = [member for member in in_turn if self._may_lead(member)]
        if not candidates:
            return  # whoever comes back has another election held
        first = min(candidates, key=lambda member: self._rests_until.get(member, 0.0))
        await asyncio.sleep(max(0.0, self._rests_until.get(first, 0.0) - time.monotonic()))
        self._next = None
        await self._elect(first)

    async def _elect(self, member: "Member") -> None:
        self._rests_until.pop(member, None)
        await member.store.write(member.store.begin_term)
        if len(self._members) > 1:
            # What other primaries did in a session is in the store; what this one remembers may be older.
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
