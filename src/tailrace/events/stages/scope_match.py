"""The first stage of the view part: the events that a stream sees, by its scope and options.

These are the only rules of visibility: every tier and every engine asks them about the events, and waiting
streams are woken by them. Filters on oplog entries (`oplog_match.py`) ask them about single operations, to
drop early what no event of the stream comes from; they may let too much through.

A document change is visible by its namespace alone, so that decision is stored per kind of event.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, EventKind
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN, Extras, Head, OplogEntry
from tailrace.events.options import ChangeStreamOptions
from tailrace.events.scope import Scope, ScopeKind
from tailrace.events.stages.namespace_filter import NamespaceFilter
from tailrace.events.stages.stage import Batch
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease

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
_DOCUMENT_CHANGES: Final = ("i", "u", "d")


class ScopeMatch:
    """The rules of one stream."""

    def __init__(
        self,
        scope: Scope,
        options: ChangeStreamOptions,
        *,
        raw_data: bool = False,
        marks_end: bool = False,
        release: StreamRelease = CURRENT_RELEASE,
    ) -> None:
        """With ``marks_end``, the ends of transactions are events."""
        self.shows_applied = release.shows_applied_operations
        """Whether the operations of a user's `applyOps` are visible."""
        self._scope = scope
        self._is_collection = scope.kind is ScopeKind.COLLECTION
        self._names = NamespaceFilter(scope, show_system_events=options.show_system_events)
        self._show_migrations = options.show_migration_events
        self._show_system = options.show_system_events
        self._show_timeseries = raw_data
        self._show_views = options.show_expanded_events and not self._is_collection
        self._marks_end = marks_end
        self._commands = _ON_COLLECTION | (
            _SYSTEM_ON_COLLECTION
            if options.show_system_events and release.shows_index_builds
            else frozenset()
        )
        supported = tuple(name.encode() for name in options.supported_events or ())
        self._noops = frozenset(_NOOPS + (_SYSTEM_NOOPS if options.show_system_events else ()) + supported)
        self._by_kind: dict[EventKind, bool] = {}
        self._by_inner_head: dict[Head, bool] = {}

    # -- events -------------------------------------------------------------------------------------------

    def __call__(self, batch: Batch[ChangeEvent]) -> Batch[ChangeEvent]:
        """Drop the events that the stream does not see."""
        known = self._by_kind.get
        for position, event in enumerate(batch.items):
            extras = event.entry.extras
            if not (known(event.kind) and (extras is PLAIN or not _is_flagged(extras))):
                return self._seen_of(batch, position)
        return batch

    def _seen_of(self, batch: Batch[ChangeEvent], first: int) -> Batch[ChangeEvent]:
        """The batch without what is not seen of it from the place ``first`` on."""
        seen = batch.items[:first]
        try:
            for event in batch.items[first:]:
                if self.sees(event):
                    seen.append(event)
        except CommandError as error:
            return batch.having(seen, error, event.entry.ts)
        return batch.having(seen)

    def sees(self, event: ChangeEvent) -> bool:
        """Return whether the stream sees an event."""
        entry = event.entry
        extras = entry.extras
        if extras is PLAIN or not _is_flagged(extras):
            decision = self._by_kind.get(event.kind)
            if decision is not None:
                return decision
        elif extras.in_apply_ops and not self.sees_outer(extras):
            return False
        if not extras.in_apply_ops:
            decision = self.sees_entry(entry)
        elif entry.head.op == "n":
            decision = self._marks_end and self.sees_entry(entry)
        else:
            decision = self.sees_inner(entry)
        if event.ddl is None and (extras is PLAIN or not _is_flagged(extras)):
            remember(self._by_kind, event.kind, decision)
        return decision

    # -- operations ---------------------------------------------------------------------------------------

    def sees_head(self, head: Head) -> bool | None:
        """Decide for an entry without extras; None if its head alone does not decide."""
        return self._sees_changes(head) if head.op in _DOCUMENT_CHANGES else None

    def _sees_changes(self, head: Head) -> bool:
        return self._names.sees(head.ns) or (self._show_views and self._names.sees_views(head.ns))

    def sees_entry(self, entry: OplogEntry) -> bool:
        """Decide for an entry that is one operation, or the mark at the end of a transaction."""
        head = entry.head
        if not self.passes_flags(entry):
            return False
        if head.op in _DOCUMENT_CHANGES:
            return self._sees_changes(head)
        if head.op == "c":
            return self._names.sees_commands(head.ns) and self._sees_command(entry, entry.command)
        return head.op == "n" and entry.o2 is not None and self._sees_noop(head, entry.o2)

    def sees_inner(self, entry: OplogEntry) -> bool:
        """Decide for an operation inside a transaction or batch, apart from the flags of its entry."""
        head, extras = entry.head, entry.extras
        if not (extras.from_migrate or extras.is_timeseries):
            decision = self._by_inner_head.get(head)
            if decision is not None:
                return decision
        if not self.passes_flags(entry):
            return False
        if head.op in _DOCUMENT_CHANGES:
            return remember(self._by_inner_head, head, self._names.sees(head.ns))
        return (
            head.op == "c" and self._names.sees_commands(head.ns) and self._sees_command(entry, entry.command)
        )

    def sees_outer(self, extras: Extras) -> bool:
        """Decide by the flags of the entry that commits an operation, which its extras repeat."""
        return (
            (self._show_timeseries or not extras.outer_is_timeseries)
            and (self._show_migrations or not extras.outer_from_migrate)
            and (self.shows_applied or not extras.applied_by_user)
        )

    def sees_any(self, namespaces: list[str]) -> bool:
        """Return whether one of these namespaces is watched."""
        return any(self._names.sees(ns) for ns in namespaces)

    def names_watched(self, operation: bytes) -> bool:
        """Return whether the BSON of an operation inside a transaction names something watched."""
        ns = rawbson.text(operation, rawbson.find(operation, b"ns"))
        if ns is None or not self._names.sees_commands(ns):
            return ns is not None and self._names.sees(ns)
        o = rawbson.subdocument(operation, b"o") or rawbson.EMPTY
        target = rawbson.first_text(o) if rawbson.first_name(o) in _INSIDE_TRANSACTIONS else None
        return target is not None and self._names.sees_collection(target)

    def passes_flags(self, entry: OplogEntry) -> bool:
        """Decide by the flags of an entry: of migrations, and of time series."""
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

    def invalidates(self, command: str) -> bool:
        """Return whether a command on what is watched ends the stream."""
        if self._is_collection:
            return command in ("drop", "renameCollection", "upgradeDowngradeViewlessTimeseries")
        return command == "dropDatabase" and self._scope.kind is ScopeKind.DATABASE

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

    def _sees_noop(self, head: Head, payload: bytes) -> bool:
        if self._names.sees(head.ns) and any(
            name in self._noops for _, name, _, _ in rawbson.elements(payload)
        ):
            return True
        ended = rawbson.find(payload, b"endOfTransaction")
        return ended is not None and self.sees_any(_strings(payload, ended))


def _is_flagged(extras: Extras) -> bool:
    return (
        extras.from_migrate
        or extras.is_timeseries
        or extras.outer_from_migrate
        or extras.outer_is_timeseries
        or extras.applied_by_user
    )


def _strings(raw: bytes, element: rawbson.Element) -> list[str]:
    if element[0] == rawbson.STRING:
        return [rawbson.string_value(raw, element[2], element[3])]
    if element[0] != rawbson.ARRAY:
        return []
    found = rawbson.elements(raw, element[2])
    return [rawbson.string_value(raw, start, end) for kind, _, start, end in found if kind == rawbson.STRING]
