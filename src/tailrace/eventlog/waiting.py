"""Waking the streams that wait, and only those that have a reason to.

Waiting streams are kept by what they watch. A new item is offered to those that watch its collection, its
database or everything, and each is asked whether it can see the entry before it is woken.
"""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from tailrace.errors import CommandError
from tailrace.model.change_event import ChangeEvent
from tailrace.model.oplog_entry import PLAIN, OplogEntry
from tailrace.model.scope import Scope, ScopeKind
from tailrace.stages.every_entry import Visibility

_EVERYTHING: Final = ""
_CONTAINERS: Final = ("applyOps", "commitTransaction")


class Waiter:
    """One stream that waits for something it can see; its future is then true."""

    __slots__ = ("future", "key", "visible")

    def __init__(self, scope: Scope, visible: Visibility, future: "asyncio.Future[bool]") -> None:
        self.key = key_of(scope)
        self.visible = visible
        self.future = future


def key_of(scope: Scope) -> str:
    """What a scope is kept under: a namespace, a database, or everything."""
    if scope.kind is ScopeKind.COLLECTION:
        return f"{scope.db}.{scope.coll}"
    return scope.db if scope.kind is ScopeKind.DATABASE else _EVERYTHING


class Waiters:
    """All streams that wait."""

    def __init__(self) -> None:
        self._by_key: dict[str, dict[Waiter, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def add(self, waiter: Waiter) -> None:
        """Wake this one when there is something for it."""
        self._by_key.setdefault(waiter.key, {})[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Forget one that no longer waits; does nothing if it was woken."""
        waiting = self._by_key.get(waiter.key)
        if waiting is not None:
            waiting.pop(waiter, None)
            if not waiting:
                del self._by_key[waiter.key]

    def offer(self, entry: OplogEntry, events: Sequence[ChangeEvent] | None) -> None:
        """Wake the streams that can see an entry; ``events`` are given for transactions and batches."""
        head = entry.head
        if head.op in ("i", "u", "d") and not head.holds_views:
            self._wake(self._watching({head.ns}), entry)
        elif events is not None and all(event.entry.head.op != "c" for event in events):
            self._wake(self._watching({event.entry.head.ns for event in events}), entry)
        else:
            # Commands touch names in many ways and are rare: everybody is asked.
            self._wake([waiter for waiting in self._by_key.values() for waiter in waiting], entry)

    def wake_all(self) -> None:
        """Wake everybody, to look for themselves."""
        for waiting in self._by_key.values():
            for waiter in waiting:
                if not waiter.future.done():
                    waiter.future.set_result(True)
        self._by_key.clear()

    def _watching(self, namespaces: set[str]) -> list[Waiter]:
        keys = {_EVERYTHING, *namespaces, *(ns.partition(".")[0] for ns in namespaces)}
        return [waiter for key in keys for waiter in self._by_key.get(key, ())]

    def _wake(self, candidates: Iterable[Waiter], entry: OplogEntry) -> None:
        is_plain = entry.extras is PLAIN
        for waiter in candidates:
            decision = waiter.visible.sees_plain(entry.head) if is_plain else None
            if decision is None:
                try:
                    decision = waiter.visible.sees(entry)
                except CommandError:
                    decision = True  # it will meet the same error, and report it
            if decision:
                self.remove(waiter)
                if not waiter.future.done():
                    waiter.future.set_result(True)


def holds_operations(entry: OplogEntry) -> bool:
    """Whether an entry is a transaction or a batch, whose operations decide who is woken."""
    return entry.head.op == "c" and entry.command in _CONTAINERS
