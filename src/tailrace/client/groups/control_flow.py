"""A group from outside, as flows: what `ConsumerGroup` and `AsyncConsumerGroup` do."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bson import Timestamp
from pymongo.errors import OperationFailure

from tailrace.bson import documents, extjson
from tailrace.client.flow import Flow
from tailrace.client.groups.consumer import Shell
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
from tailrace.client.groups.store import GroupStore, changing, missing
from tailrace.client.options import Document
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


class GroupFlow:
    """Shared by both: their clients and their store, which `_opening` finds."""

    _store: GroupStore
    _client: Any

    def __init__(self, shell: Shell, target: Any, group: str, positions: Positions) -> None:
        self.name = group
        self._shell = shell
        self._target = target
        self._positions = positions
        self._opened: list[Any] = []

    def _opening(self) -> Flow[None]:
        try:
            self._client = watched_of(self._target, None, self._shell, self._opened).client
            self._store = yield from opening_store(self._positions, self._client, self._shell, self._opened)
        except BaseException:
            yield from self._closing()
            raise

    def _closing(self) -> Flow[None]:
        opened, self._opened = self._opened, []
        for client in opened:
            yield client.close

    def _pausing(self, is_paused: bool) -> Flow[GroupState]:
        return changing(self._store, self.name, lambda state: state.paused(is_paused))

    def _seeking(self, token: Document | None, time: Timestamp | None) -> Flow[GroupState]:
        if (token is None) == (time is None):
            raise TypeError("seek takes a token or a time")
        if time is not None:
            token = high_water_mark(from_timestamp(time))
        assert token is not None
        cluster_time_of(text_of(token))  # refuses what is no token
        position = dict(token)
        return changing(self._store, self.name, lambda state: state.sought(position))

    def _deleting(self) -> Flow[None]:
        yield from self._state()
        yield from self._store.delete(self.name)

    def _letters(self, limit: int) -> Flow[list[DeadLetter]]:
        yield from self._state()
        return (yield from self._store.letters(self.name, limit))

    def _replaying(self, handle: Callable[[Delivery], object], limit: int | None) -> Flow[int]:
        yield from self._state()
        return (yield from replaying(self._store, self.name, handle, limit))

    def _status(self, count_seconds: float) -> Flow[GroupStatus]:
        state = yield from self._state()
        owners = [slot.owner for slot in state.slots]
        dead_letters = yield from self._store.count_letters(self.name)
        lag = yield from self._lag(state, count_seconds)
        return GroupStatus(
            name=state.name,
            namespace=state.namespace,
            is_paused=state.is_paused,
            position=state.oldest_position,
            slots={owner: owners.count(owner) for owner in dict.fromkeys(owners)},
            members=state.members,
            dead_letters=dead_letters,
            lag=lag,
        )

    def _state(self) -> Flow[GroupState]:
        state = yield from self._store.load(self.name)
        if state is None:
            raise missing(self._store, self.name)
        return state

    def _lag(self, state: GroupState, count_seconds: float) -> Flow[GroupLag]:
        reply = yield partial(self._client.admin.command, "ping")
        now = from_timestamp(reply["operationTime"])
        position = state.oldest_position
        seconds = float(max(seconds_of(now) - seconds_of(cluster_time_of(text_of(position))), 0))
        try:
            events, is_all = yield from self._count(state, now, count_seconds)
        except OperationFailure as error:
            reason = (error.details or {}).get("errmsg", "the server gave no reason")
            return GroupLag(0, False, seconds, f"{reason} ({error.code})")
        is_all = is_all and not any(is_reading(slot.position) for slot in state.slots)
        return GroupLag(events, is_all, 0.0 if is_all and not events else seconds)

    def _count(self, state: GroupState, until: int, seconds: float) -> Flow[tuple[int, bool]]:
        """How many events the slots have not handled, and whether all were counted."""
        stream_options = documents.decode(extjson.loads(state.stream))
        watched = watched_in(self._client, state.namespace)
        pipeline = without_own_changes(stream_options["pipeline"], watched, self._store)
        deadline = time.monotonic() + seconds
        count = 0
        stream = yield partial(
            self._shell.watch,
            watched.target,
            pipeline,
            merge_fragments=True,
            start_after=stream_token(state.oldest_position),
            max_await_time_ms=_AWAIT_MS,
            stage_options=stream_options["options"],
        )
        try:
            while count < MOST_COUNTED and time.monotonic() < deadline:
                event = yield stream.try_next
                if event is not None:
                    number = slot_of(event, len(state.slots))
                    slot = state.slots[KEYLESS_SLOT if number is None else number]
                    count += comes_after(event["_id"], slot.position)
                elif not stream.alive or cluster_time_of(text_of(stream.resume_token or {})) >= until:
                    return count, True
        finally:
            yield stream.close
        return count, False
