"""A group from outside: pause it, move it, see its lag and its dead letters."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from bson import Timestamp
from pymongo.errors import OperationFailure

from tailrace.bson import documents, extjson
from tailrace.client.flow import run
from tailrace.client.groups.blocking import SHELL
from tailrace.client.groups.delivery import DeadLetter, Delivery
from tailrace.client.groups.handling import replaying
from tailrace.client.groups.keys import KEYLESS_SLOT, slot_of
from tailrace.client.groups.opening import (
    Positions,
    opening_store,
    watched_in,
    watched_of,
    without_own_changes,
)
from tailrace.client.groups.read_positions import is_reading, stream_token
from tailrace.client.groups.state import GroupMember, GroupState
from tailrace.client.groups.store import changing, missing
from tailrace.client.options import Document
from tailrace.client.sync import watch
from tailrace.client.token_order import comes_after, high_water_mark, text_of
from tailrace.events.cluster_time import from_timestamp, seconds_of
from tailrace.events.resume_token import cluster_time_of

MOST_COUNTED: Final = 10_000
"""Events that are counted for a lag; a group with more has a lag of more."""
_AWAIT_MS: Final = 100


@dataclass(frozen=True, slots=True)
class GroupLag:
    """What a group has left to do."""

    events: int
    is_all: bool
    """Whether these are all; otherwise there are more."""
    seconds: float
    """The cluster time between the oldest position and the newest write; 0 if there are no events."""
    failure: str | None = None
    """Why the events cannot be counted: the stream cannot be opened at the oldest position."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    name: str
    namespace: str
    is_paused: bool
    position: Document
    """The oldest position of its slots."""
    slots: Mapping[str | None, int]
    """How many slots each worker has; those of None are free."""
    members: Sequence[GroupMember]
    dead_letters: int
    lag: GroupLag


class ConsumerGroup:
    """A consumer group that exists; a context manager."""

    def __init__(self, target: Any, group: str, *, positions: Positions = None) -> None:
        """``target`` and ``positions`` are those of `consume`."""
        self.name = group
        self._opened: list[Any] = []
        try:
            watched = watched_of(target, None, SHELL, self._opened)
            self._client = watched.client
            self._store = run(opening_store(positions, watched.client, SHELL, self._opened))
        except BaseException:
            self.close()
            raise

    @classmethod
    def names(cls, target: Any, *, positions: Positions = None) -> list[str]:
        """The names of all groups that a place has."""
        with cls(target, "", positions=positions) as place:
            return run(place._store.groups())

    def close(self) -> None:
        for client in self._opened:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pause(self) -> None:
        """Let the workers finish the events that they have, and wait."""
        run(changing(self._store, self.name, lambda state: state.paused(True)))

    def resume(self) -> None:
        """End a pause."""
        run(changing(self._store, self.name, lambda state: state.paused(False)))

    def seek(self, *, token: Document | None = None, time: Timestamp | None = None) -> None:
        """Let the whole group go on after a token, or at a cluster time.

        A worker may still handle the event that it has; its position is not committed any more.
        """
        if (token is None) == (time is None):
            raise TypeError("seek takes a token or a time")
        if time is not None:
            token = high_water_mark(from_timestamp(time))
        assert token is not None
        cluster_time_of(text_of(token))  # refuses what is no token
        position = dict(token)
        run(changing(self._store, self.name, lambda state: state.sought(position)))

    def delete(self) -> None:
        """Remove the group, its positions and its dead letters; workers that still run raise."""
        self._state()
        run(self._store.delete(self.name))

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The first dead letters, in the order of the stream."""
        self._state()
        return run(self._store.letters(self.name, limit))

    def replay(self, handle: Callable[[Delivery], object], limit: int | None = None) -> int:
        """Call ``handle`` with the dead letters, and remove those that it handles; return how many.

        A letter whose handler raises stays, with the new error.
        """
        self._state()
        return run(replaying(self._store, self.name, handle, limit))

    def status(self, count_seconds: float = 10.0) -> GroupStatus:
        """Where the group is; its lag is counted by reading the stream from its oldest position.

        That takes ``count_seconds`` at most; a group with more events has a lag of more.
        """
        state = self._state()
        owners = [slot.owner for slot in state.slots]
        return GroupStatus(
            name=state.name,
            namespace=state.namespace,
            is_paused=state.is_paused,
            position=state.oldest_position,
            slots={owner: owners.count(owner) for owner in dict.fromkeys(owners)},
            members=state.members,
            dead_letters=run(self._store.count_letters(self.name)),
            lag=self._lag(state, count_seconds),
        )

    def _state(self) -> GroupState:
        state = run(self._store.load(self.name))
        if state is None:
            raise missing(self._store, self.name)
        return state

    def _lag(self, state: GroupState, count_seconds: float) -> GroupLag:
        now = from_timestamp(self._client.admin.command("ping")["operationTime"])
        position = state.oldest_position
        seconds = float(max(seconds_of(now) - seconds_of(cluster_time_of(text_of(position))), 0))
        try:
            events, is_all = self._count(state, now, count_seconds)
        except OperationFailure as error:
            reason = (error.details or {}).get("errmsg", "the server gave no reason")
            return GroupLag(0, False, seconds, f"{reason} ({error.code})")
        is_all = is_all and not any(is_reading(slot.position) for slot in state.slots)
        return GroupLag(events, is_all, 0.0 if is_all and not events else seconds)

    def _count(self, state: GroupState, until: int, seconds: float) -> tuple[int, bool]:
        """How many events the slots have not handled, and whether all were counted."""
        stream_options = documents.decode(extjson.loads(state.stream))
        watched = watched_in(self._client, state.namespace)
        pipeline = without_own_changes(stream_options["pipeline"], watched, self._store)
        deadline = time.monotonic() + seconds
        count = 0
        with watch(
            watched.target,
            pipeline,
            merge_fragments=True,
            start_after=stream_token(state.oldest_position),
            max_await_time_ms=_AWAIT_MS,
            stage_options=stream_options["options"],
        ) as stream:
            while count < MOST_COUNTED and time.monotonic() < deadline:
                event = stream.try_next()
                if event is not None:
                    number = slot_of(event, len(state.slots))
                    slot = state.slots[KEYLESS_SLOT if number is None else number]
                    count += comes_after(event["_id"], slot.position)
                elif not stream.alive or cluster_time_of(text_of(stream.resume_token or {})) >= until:
                    return count, True
        return count, False
