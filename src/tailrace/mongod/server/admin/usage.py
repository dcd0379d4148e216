"""How often and how long collections are used, for `top`, `latencyStats` and `opLatencies`."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bson import Int64

from tailrace.bson.values import is_string

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.command import Command
    from tailrace.mongod.server.dispatch.context import Context

_SHOWN: Final = (
    "total", "readLock", "writeLock", "queries", "getmore", "insert", "update", "remove", "commands",
)  # fmt: skip
LATENCIES: Final = ("reads", "writes", "commands", "transactions")
_KINDS: Final = {
    "find": "queries", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove",
}  # fmt: skip
_STATEMENTS: Final = {"update": "updates", "delete": "deletes"}
_WRITES: Final = frozenset({"insert", "update", "delete", "findAndModify"})
_WITHOUT_LOCK: Final = frozenset({"create", "killCursors"})
_ALSO_COUNTED: Final = frozenset({"getMore", "killCursors", "explain", "listIndexes"})
_NOT_COUNTED: Final = frozenset(
    {"drop", "dropDatabase", "validate", "dbStats", "dataSize", "listCollections", "filemd5", "dbHash"}
)
"""Commands that a real server does not count for the collection that they name."""
_MICROSECONDS: Final = 1_000_000


class Kind(NamedTuple):
    """How a command is counted."""

    shown: str
    lock: str | None
    latency: str
    statements: str | None


class CollectionUse:
    """The operations on one collection."""

    __slots__ = ("_counted", "_histograms")

    def __init__(self) -> None:
        self._counted: dict[str, list[int]] = {}
        self._histograms: dict[str, dict[int, int]] = {}

    def add(self, kind: Kind, microseconds: int, number: int) -> None:
        for name in ("total", kind.lock, kind.shown):
            if name is not None:
                self._add(name, microseconds, number)
        self._add(f"{kind.latency} latency", microseconds, number)
        histogram = self._histograms.setdefault(kind.latency, {})
        bucket = microseconds.bit_length()
        histogram[bucket] = histogram.get(bucket, 0) + number

    def _add(self, name: str, microseconds: int, number: int) -> None:
        found = self._counted.get(name)
        if found is None:
            self._counted[name] = [microseconds, number]
        else:
            found[0] += microseconds
            found[1] += number

    def to_document(self) -> dict[str, Any]:
        """As `top` shows it."""
        shown = {}
        for name in _SHOWN:
            microseconds, number = self._counted.get(name, (0, 0))
            shown[name] = {"time": microseconds, "count": number}
        return shown

    def latencies(self, *, with_histograms: bool = False) -> dict[str, Any]:
        """As `latencyStats` shows it."""
        shown = {}
        for name in LATENCIES:
            microseconds, number = self._counted.get(f"{name} latency", (0, 0))
            figures: dict[str, Any] = {"latency": Int64(microseconds), "ops": Int64(number)}
            if with_histograms:
                buckets = sorted(self._histograms.get(name, {}).items())
                histogram = [
                    {"micros": Int64(1 << bucket - 1 if bucket > 1 else 0), "count": Int64(count)}
                    for bucket, count in buckets
                ]
                figures = {"histogram": histogram, **figures}
            shown[name] = figures
        return shown


class Usage:
    """The operations of a node, by collection."""

    def __init__(self) -> None:
        self._collections: dict[str, CollectionUse] = {}
        self._kinds: dict[str, Kind | None] = {}
        self.all = CollectionUse()
        """The operations on all collections."""

    def note(self, context: "Context") -> None:
        """Count a command that has ended."""
        entry = context.entry
        name = entry.name
        try:
            kind = self._kinds[name]
        except KeyError:
            kind = self._kinds[name] = _kind(entry)
        if kind is None:
            if name in ("drop", "dropDatabase"):
                self._forget(context)
            return
        ns = context.namespace if name != "explain" else _explained(context)
        if ns is None or context.is_change_stream:
            return
        microseconds = int((time.monotonic() - context.started) * _MICROSECONDS)
        number = 1
        if kind.statements is not None:
            statements = context.request.sequences.get(kind.statements) or context.command.get(
                kind.statements
            )
            number = len(statements) if isinstance(statements, list | tuple) else 1
        used = self._collections.get(ns)
        if used is None:
            used = self._collections[ns] = CollectionUse()
        used.add(kind, microseconds, number)
        self.all.add(kind, microseconds, number)

    def of(self, ns: str) -> CollectionUse:
        return self._collections.get(ns) or CollectionUse()

    def to_document(self) -> Mapping[str, Any]:
        """As `top` shows it; a name that no collection can have is no name of a field."""
        found = sorted(self._collections.items())
        return {ns: used.to_document() for ns, used in found if "\0" not in ns}

    def _forget(self, context: "Context") -> None:
        if context.entry.name == "drop":
            self._collections.pop(context.namespace or "", None)
            return
        prefix = f"{context.database}."
        self._collections = {ns: each for ns, each in self._collections.items() if not ns.startswith(prefix)}


def _kind(command: "Command") -> Kind | None:
    name = command.name
    is_counted = command.is_read or command.is_write or name in _ALSO_COUNTED
    if not is_counted or command.admin_only or command.ends_transaction or name in _NOT_COUNTED:
        return None
    lock: str | None = "writeLock" if command.is_write else "readLock"
    if name in _WITHOUT_LOCK:
        lock = None
    latency = "commands"
    if name in _WRITES:
        latency = "writes"
    elif lock == "readLock":
        latency = "reads"
    return Kind(_KINDS.get(name, "commands"), lock, latency, _STATEMENTS.get(name))


def _explained(context: "Context") -> str | None:
    inner = context.command.get("explain")
    value = next(iter(inner.values()), None) if isinstance(inner, dict) else None
    return f"{context.database}.{value}" if is_string(value) else None
