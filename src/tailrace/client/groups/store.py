"""The port of the position store: where the states of groups and their dead letters are kept.

A store compares and replaces one document for each group; everything else is decided by changes of the state
(`state.py`). The methods are flows, so that one store serves blocking and asyncio workers.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tailrace.client.flow import Flow
from tailrace.client.groups.delivery import DeadLetter
from tailrace.client.groups.state import GroupState
from tailrace.errors import UsageError


class GroupStore(Protocol):
    place: str
    """Its address, for people."""
    namespaces: tuple[str, ...]
    """The collections that it writes to: a group does not consume them."""

    def load(self, group: str) -> Flow[GroupState | None]:
        """The newest state of a group, or None if there is no such group."""

    def create(self, state: GroupState) -> Flow[bool]:
        """Store the first state of a group; False if the group exists."""

    def replace(self, state: GroupState) -> Flow[bool]:
        """Store a state if the group has the version before it; False if it has another. It is durable."""

    def delete(self, group: str) -> Flow[None]:
        """Remove a group and its dead letters."""

    def groups(self) -> Flow[list[str]]:
        """The names of all groups, sorted."""

    def bury(self, letter: DeadLetter) -> Flow[None]:
        """Store a dead letter; one for the same event is replaced."""

    def letters(self, group: str, limit: int, after: str = "") -> Flow[list[DeadLetter]]:
        """The first dead letters of a group after a position, in the order of the stream."""

    def count_letters(self, group: str) -> Flow[int]: ...

    def discard(self, letter: DeadLetter) -> Flow[None]:
        """Remove a dead letter; nothing happens if it is not there."""


def changing(store: GroupStore, group: str, change: Callable[[GroupState], GroupState]) -> Flow[GroupState]:
    """Apply a change to the newest state; return the state after it."""
    while True:
        found = yield from store.load(group)
        if found is None:
            raise missing(store, group)
        changed = change(found)
        if changed is found:
            return found
        changed = replace(changed, version=found.version + 1)
        if (yield from store.replace(changed)):
            return changed


def missing(store: GroupStore, group: str) -> UsageError:
    return UsageError(f"there is no group {group} in {store.place}; `tailrace consume` creates it")
