"""One worker's part in a group: it joins, sends heartbeats, and removes workers that have stopped.

A worker is alive while its counter grows. Others remember when they first saw its value; nobody compares the
clocks of two machines.
"""

import os
import socket
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tailrace.client.flow import Flow
from tailrace.client.groups.state import GroupMember, GroupState, WorkerProgress
from tailrace.client.groups.store import GroupStore, changing

BEATS_IN_A_LEASE: Final = 3


@dataclass(slots=True)
class _Sighting:
    """A value of another worker's counter."""

    beat: int
    since: float
    last: float
    times: int = 1


class Membership:
    def __init__(self, store: GroupStore, group: str, lease_seconds: float) -> None:
        self.id = uuid.uuid4().hex
        self.lease_seconds = lease_seconds
        self._store = store
        self._group = group
        self._renewed_at = 0.0
        self._sightings: dict[str, _Sighting] = {}

    @property
    def beat_seconds(self) -> float:
        return self.lease_seconds / BEATS_IN_A_LEASE

    @property
    def is_lease_over(self) -> bool:
        """Whether others may have removed this worker: it must send a heartbeat before it handles more."""
        return time.monotonic() - self._renewed_at >= self.lease_seconds

    def joining(self, stream: str) -> Flow[GroupState]:
        member = GroupMember(self.id, f"{socket.gethostname()}:{os.getpid()}", seen=datetime.now(UTC))
        started = time.monotonic()
        state = yield from changing(self._store, self._group, lambda state: state.joined(member, stream))
        self._renewed_at = started
        return state

    def beating(self) -> Flow[GroupState]:
        """Send a heartbeat, and remove workers that have sent none for the time of a lease."""
        started = time.monotonic()
        state = yield from changing(self._store, self._group, self._beaten)
        if self.id in state.member_ids:
            self._renewed_at = started
        return state

    def settling(self, progress: WorkerProgress) -> Flow[GroupState]:
        return (yield from changing(self._store, self._group, lambda state: state.settled(self.id, progress)))

    def committing(self, progress: WorkerProgress) -> Flow[GroupState]:
        """Commit, and keep all slots."""
        return (
            yield from changing(self._store, self._group, lambda state: state.committed(self.id, progress))
        )

    def leaving(self, progress: WorkerProgress) -> Flow[GroupState]:
        """Commit, and give everything back."""
        return (
            yield from changing(
                self._store,
                self._group,
                lambda state: state.committed(self.id, progress).without({self.id}),
            )
        )

    def _beaten(self, state: GroupState) -> GroupState:
        return state.beaten(self.id, datetime.now(UTC)).without(self._stopped(state))

    def _stopped(self, state: GroupState) -> set[str]:
        now = time.monotonic()
        for member in state.members:
            seen = self._sightings.get(member.id)
            if seen is None or seen.beat != member.beat:
                self._sightings[member.id] = _Sighting(member.beat, now, now)
            elif now - seen.last >= self.beat_seconds / 2:
                seen.last, seen.times = now, seen.times + 1
        self._sightings = {member: self._sightings[member] for member in state.member_ids}
        # Several sightings: after an outage of the store everybody is late, and nobody has stopped.
        return {
            member
            for member, seen in self._sightings.items()
            if member != self.id and now - seen.since >= self.lease_seconds and seen.times >= BEATS_IN_A_LEASE
        }
