"""Stage 1: the entries that this stream can see, from the start point on.

The filter is the OR of what the server uses: document changes and commands in the watched namespaces
(narrowed by the user's `$match` where that could be rewritten onto entries), the commands that invalidate
the stream (never narrowed), transactions, the no-ops that carry sharding events, and view definitions.
The decision for document changes depends on the namespace alone, so it is remembered per entry head.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.commit_entry import COMMIT
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN, EntryReader, Extras, Head, OplogEntry
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.namespace_filter import NamespaceFilter
from tailrace.events.stages.push_down import PushedMatch
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.visibility import Visibility

# Commands whose first field names the collection they act on.
_ON_COLLECTION: Final = frozenset({
    "drop", "create", "createIndexes", "commitIndexBuild", "dropIndexes", "collMod",
})  # fmt: skip
_SYSTEM_ON_COLLECTION: Final = frozenset({"startIndexBuild", "abortIndexBuild"})
_NOOPS: Final = (
    b"reshardBegin", b"reshardDoneCatchUp", b"shardCollection", b"refineCollectionShardKey",
    b"reshardCollection",
)  # fmt: skip
_SYSTEM_NOOPS: Final = (b"migrateLastChunkFromShard", b"reshardBlockingWrites")
_INSIDE_TRANSACTIONS: Final = frozenset({b"create", b"createIndexes"})
_BUCKETS: Final = "system.buckets."

EntryPredicate: TypeAlias = Callable[[OplogEntry], bool]


class EntryFilter:
    """The rules of visibility, for whole entries and for operations inside transactions."""

    def __init__(
        self,
        scope: Scope,
        options: ChangeStreamOptions,
        *,
        raw_data: bool = False,
        pushed: PushedMatch | None = None,
    ) -> None:
        self._scope = scope
        self._is_collection = scope.kind is ScopeKind.COLLECTION
        self._names = NamespaceFilter(scope, show_system_events=options.show_system_events)
        self._show_migrations = options.show_migration_events
        self._show_system = options.show_system_events
        self._show_timeseries = raw_data
        self._show_views = options.show_expanded_events and not self._is_collection
        self._pushed = pushed or PushedMatch()
        self._commands = _ON_COLLECTION | (
            _SYSTEM_ON_COLLECTION if options.show_system_events else frozenset()
        )
        supported = tuple(name.encode() for name in options.supported_events or ())
        self._noops = frozenset(_NOOPS + (_SYSTEM_NOOPS if options.show_system_events else ()) + supported)
        # For document changes: is the namespace watched, is it where view definitions are?
        self._by_head: dict[Head, bool | None] = {}
        self._by_inner_head: dict[Head, bool] = {}

    def sees_plain(self, head: Head) -> bool | None:
        """The decision for an entry without extras, or None if the head alone does not decide."""
        try:
            return self._by_head[head]
        except KeyError:
            pass
        decision: bool | None = None
        if head.op in ("i", "u", "d"):
            if self._show_views and self._names.sees_views(head.ns):
                decision = True
            elif not self._names.sees(head.ns):
                decision = False
            elif self._pushed.operation is None:
                decision = True
        return remember(self._by_head, head, decision)

    def sees(self, entry: OplogEntry) -> bool:
        """Whether this entry may lead to events of the stream."""
        head = entry.head
        if not self._passes_flags(entry):
            return False
        if head.op in ("i", "u", "d"):
            return (self._show_views and self._names.sees_views(head.ns)) or (
                self._names.sees(head.ns) and self._passes(self._pushed.operation, entry)
            )
        if head.op == "c":
            command = entry.command
            if command == "applyOps":
                return self._sees_transaction(entry) and self._passes(self._pushed.transaction, entry)
            if command == COMMIT:
                return self._passes(self._pushed.transaction, entry)
            if not self._names.sees_commands(head.ns):
                return False
            return self._sees_command(entry, command) and (
                self._invalidates(command) or self._passes(self._pushed.operation, entry)
            )
        return head.op == "n" and entry.o2 is not None and self._sees_noop(head, entry.o2)

    def sees_inner(self, entry: OplogEntry) -> bool:
        """Whether an operation inside a transaction is visible."""
        head, extras = entry.head, entry.extras
        if not (extras.from_migrate or extras.is_timeseries):
            decision = self._by_inner_head.get(head)
            if decision is not None:
                return decision
        if not self._passes_flags(entry):
            return False
        if head.op in ("i", "u", "d"):
            is_watched = self._names.sees(head.ns)
            if self._pushed.inner is None:
                remember(self._by_inner_head, head, is_watched)
                return is_watched
            return is_watched and self._passes(self._pushed.inner, entry)
        return (
            head.op == "c"
            and self._names.sees_commands(head.ns)
            and self._sees_command(entry, entry.command)
            and self._passes(self._pushed.inner, entry)
        )

    def sees_outer(self, extras: Extras) -> bool:
        """Whether an operation passes by the flags of the entry that commits it, known from its extras."""
        return (self._show_timeseries or not extras.outer_is_timeseries) and (
            self._show_migrations or not extras.outer_from_migrate
        )

    def sees_any(self, namespaces: list[str]) -> bool:
        """Whether one of these namespaces is watched."""
        return any(self._names.sees(ns) for ns in namespaces)

    def _passes_flags(self, entry: OplogEntry) -> bool:
        extras = entry.extras
        if extras is PLAIN:
            return True
        if extras.is_timeseries and not self._show_timeseries:
            return False
        if not extras.from_migrate or self._show_migrations:
            return True
        return (
            self._show_system
            and entry.head.op == "c"
            and self._names.sees_commands(entry.head.ns)
            and entry.command in ("create", "createIndexes")
            and self._sees_command(entry, entry.command)
        )

    def _sees_command(self, entry: OplogEntry, command: str) -> bool:
        if command == "dropDatabase":
            return not self._is_collection
        target = entry.command_target
        if target is None:
            return False
        if command in self._commands:
            return self._names.sees_collection(target)
        if command == "renameCollection":
            to = rawbson.text(entry.o, rawbson.find(entry.o, b"to"))
            return self._names.sees(target) or (to is not None and self._names.sees(to))
        if command == "upgradeDowngradeViewlessTimeseries":
            name = target.removeprefix(_BUCKETS)
            return not self._is_collection or name == (self._scope.coll or "").removeprefix(_BUCKETS)
        return False

    def _sees_transaction(self, entry: OplogEntry) -> bool:
        """Whether an applyOps takes effect at its own position and may hold something of this stream."""
        operations = None
        for kind, name, start, _ in rawbson.elements(entry.o):
            if name == b"applyOps" and kind == rawbson.ARRAY:
                operations = start
            elif name in (b"prepare", b"partialTxn") and kind == rawbson.BOOL and entry.o[start]:
                return False
        if operations is None:
            return False
        previous = entry.extras.previous
        # Only a link that says "there is nothing before this" tells that these are all operations there are.
        if previous is None or not previous.is_null:
            return True
        return any(
            kind == rawbson.DOCUMENT and self._names_watched(entry.o[start:end])
            for kind, _, start, end in rawbson.elements(entry.o, operations)
        )

    def _names_watched(self, operation: bytes) -> bool:
        ns = rawbson.text(operation, rawbson.find(operation, b"ns"))
        if ns is None or not self._names.sees_commands(ns):
            return ns is not None and self._names.sees(ns)
        o = rawbson.subdocument(operation, b"o") or rawbson.EMPTY
        target = rawbson.first_text(o) if rawbson.first_name(o) in _INSIDE_TRANSACTIONS else None
        return target is not None and self._names.sees_collection(target)

    def _sees_noop(self, head: Head, payload: bytes) -> bool:
        if self._names.sees(head.ns) and any(
            name in self._noops for _, name, _, _ in rawbson.elements(payload)
        ):
            return True
        ended = rawbson.find(payload, b"endOfTransaction")
        return ended is not None and self.sees_any(_strings(payload, ended))

    def _invalidates(self, command: str) -> bool:
        if self._is_collection:
            return command in ("drop", "renameCollection", "upgradeDowngradeViewlessTimeseries")
        return command == "dropDatabase" and self._scope.kind is ScopeKind.DATABASE

    @staticmethod
    def _passes(predicate: EntryPredicate | None, entry: OplogEntry) -> bool:
        return predicate is None or predicate(entry)


def _strings(raw: bytes, element: rawbson.Element) -> list[str]:
    if element[0] == rawbson.STRING:
        return [rawbson.string_value(raw, element[2], element[3])]
    if element[0] != rawbson.ARRAY:
        return []
    found = rawbson.elements(raw, element[2])
    return [rawbson.string_value(raw, start, end) for kind, _, start, end in found if kind == rawbson.STRING]


class OplogMatch:
    """Reads raw entries and keeps the visible ones from ``start`` on."""

    def __init__(self, visible: Visibility, reader: EntryReader, start: int) -> None:
        self._visible = visible
        self._reader = reader
        self._start = start
        self.scanned = 0
        """cluster time of the newest entry looked at, visible or not"""

    def __call__(self, batch: Batch[bytes]) -> Batch[OplogEntry]:
        """Raw entries in, visible entries out."""
        kept: list[OplogEntry] = []
        keep = kept.append
        read = self._reader.read
        sees_plain = self._visible.sees_plain
        start = self._start
        scanned = self.scanned
        try:
            for raw in batch.items:
                entry = read(raw)
                scanned = entry.ts
                if scanned < start:
                    continue
                decision = sees_plain(entry.head) if entry.extras is PLAIN else None
                if decision is None:
                    decision = self._visible.sees(entry)
                if decision:
                    keep(entry)
        except CommandError as error:
            # The time of an entry that cannot be read is not known, but it is later than the last one.
            return batch.having(kept, error, scanned + 1)
        finally:
            self.scanned = scanned
        return batch.having(kept)
