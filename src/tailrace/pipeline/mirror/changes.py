"""Read the changes of the mirrored collections in an interval of cluster time.

The changes of a collection are in order. What replaces all documents at once (a drop, a rename) is one of
them. It makes those before it irrelevant to tables of the current state, which are then left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.bson.id_key import id_key
from tailrace.errors import PipelineError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_mark import EntryMark
from tailrace.events.event_token import token_document
from tailrace.events.interval import Interval
from tailrace.lake.deferred_entries import is_deferred
from tailrace.lake.mirror.merge import CLEAR, DELETE, DIFF, WRITE, RowChange
from tailrace.namespaces import NamespaceChoice
from tailrace.pipeline.history.build import SLICE_ENTRIES, time_slices
from tailrace.pipeline.mirror.plain_changes import Item, NamedChange, ShardChanges
from tailrace.pipeline.mirror.scope import is_mirrored
from tailrace.sources.shard_events import ShardStages
from tailrace.sources.source import OplogSource

_CAPPED: Final = b"capped"
EMPTIED: Final = b""
REPLACED: Final = b"replaced"
"""The payload of a change that clears a collection: whether it has no documents then, or unknown ones"""


@dataclass(slots=True)
class CollectionChanges:
    """What happened to one collection in an interval."""

    has_past: bool
    """Whether changes count that are before a drop or a rename"""
    changes: list[RowChange] = field(default_factory=list)
    emptied: int = 0
    """When it was created, dropped or renamed away the last time: it had no documents then. 0 for never."""
    replaced: int = 0
    """When another collection got its name the last time; 0 for never"""
    is_refused: bool = False
    """Whether it was created as something that cannot be followed"""

    def clear(self, time: int, payload: bytes) -> None:
        """The documents that were changed are gone."""
        if not self.has_past:
            self.changes.clear()
        self.changes.append(RowChange(b"", CLEAR, payload, time, "", time))
        self.is_refused = False
        if payload == EMPTIED:
            self.emptied = time
        else:
            self.replaced = time


@dataclass(frozen=True, slots=True)
class IntervalChanges:
    """What happened in an interval, by namespace."""

    collections: dict[str, CollectionChanges]
    newest: dict[str, EntryMark]
    """The newest entry of each shard that has entries in it"""
    entries: int


def read_changes(
    source: OplogSource, chosen: NamespaceChoice, interval: Interval, *, has_past: bool = False
) -> IntervalChanges:
    """Read an interval that divides no transaction over several shards.

    With ``has_past``, changes stay that are before a drop or a rename.
    """
    after, through = interval.after, interval.through
    shards = source.shards()
    is_chosen = cache(partial(is_mirrored, chosen))
    readers = {shard: ShardChanges(ShardStages(source, shard, after, through), is_chosen) for shard in shards}
    newest: dict[str, bytes] = {}
    items: list[Item] = []
    collected = _Collector(is_chosen, has_past=has_past)
    entries = 0
    for taken in time_slices(source, after, through, SLICE_ENTRIES):
        for shard, raws in taken.items():
            if raws:
                newest[shard] = raws[-1]
                entries += len(raws)
                items += readers[shard].items(raws)
        if len(shards) == 1:
            collected.take(items)
            items.clear()
    if items:
        collected.take(_in_order(items))
    marks = {shard: source.mark_of(raw) for shard, raw in newest.items()}
    return IntervalChanges(collected.found, marks, entries)


def _visible(item: Item) -> int:
    if isinstance(item, NamedChange):
        return item.change.visible
    return item.entry.extras.commit_timestamp or item.entry.ts


def _in_order(items: list[Item]) -> list[Item]:
    """The changes of several shards by the time at which readers see them.

    A document that moves to another shard is deleted on one and inserted on the other, in one transaction:
    where it is deleted comes first.
    """
    items.sort(key=_visible)
    last: dict[tuple[int, str, bytes], str] = {}
    for item in items:
        if not isinstance(item, NamedChange) and (place := _place_of(item)) is not None:
            last[place] = item.operation_type

    def moves_away(item: Item) -> int:
        place = None if isinstance(item, NamedChange) else _place_of(item)
        return 0 if place is not None and last[place] == "delete" else 1

    return sorted(items, key=lambda item: (_visible(item), moves_away(item))) if last else items


def _place_of(event: ChangeEvent) -> tuple[int, str, bytes] | None:
    """What identifies a document of a shard at the end of a transaction over several; None for others."""
    if not event.entry.extras.commit_timestamp or event.document_key is None:
        return None
    return _visible(event), event.shard, id_key(event.document_key)


class _Collector:
    def __init__(self, is_mirrored: Callable[[str], bool], *, has_past: bool) -> None:
        self._is_mirrored = is_mirrored
        self._has_past = has_past
        self.found: dict[str, CollectionChanges] = {}

    def take(self, items: Sequence[Item]) -> None:
        for item in items:
            if isinstance(item, NamedChange):
                self._of(item.namespace).changes.append(item.change)
            else:
                self._take_event(item)

    def _take_event(self, event: ChangeEvent) -> None:
        extras, kind = event.entry.extras, event.kind
        if extras.from_migrate or extras.outer_from_migrate:
            return  # a chunk moves; its documents stay as they are
        namespace = f"{kind.database}.{kind.collection}"
        if is_deferred(event):
            _check_known(event)
        elif event.document_key is not None:
            if self._is_mirrored(namespace):
                self._of(namespace).changes.append(_change(event))
        elif kind.collection is not None and event.ddl is not None:
            self._command(event, namespace)

    def _of(self, namespace: str) -> CollectionChanges:
        found = self.found.get(namespace)
        if found is None:
            found = self.found[namespace] = CollectionChanges(self._has_past)
        return found

    def _command(self, event: ChangeEvent, namespace: str) -> None:
        assert event.ddl is not None
        if event.operation_type in ("create", "drop", "rename") and self._is_mirrored(namespace):
            changes = self._of(namespace)
            changes.clear(event.entry.ts, EMPTIED)
            if event.operation_type == "create":
                description = event.ddl.description or rawbson.EMPTY
                changes.is_refused = event.ddl.ns_type != "collection" or (
                    rawbson.find(description, _CAPPED) is not None
                )
        if event.operation_type == "rename" and event.ddl.to is not None:
            database, collection = (rawbson.field(event.ddl.to, name) for name in (b"db", b"coll"))
            if database is None or collection is None:
                return
            target = ".".join(value[4:-1].decode() for _, value in (database, collection))
            if self._is_mirrored(target):
                self._of(target).clear(event.entry.ts, REPLACED)


def _check_known(event: ChangeEvent) -> None:
    """A no-op without an event changes no document; everything else has to be understood."""
    if event.entry.head.op != "n":
        raise PipelineError(
            f"the oplog entry of {in_words(event.entry.ts)} on {event.entry.head.ns} cannot be read; "
            "what it changes is not known"
        )


def _change(event: ChangeEvent) -> RowChange:
    assert event.document_key is not None
    key = id_key(event.document_key)
    token = rawbson.first_text(token_document(event)) or ""
    time, visible = event.entry.ts, _visible(event)
    if event.operation_type == "delete":
        return RowChange(key, DELETE, event.document_key, time, token, visible)
    if event.full_document is not None:
        return RowChange(key, WRITE, event.full_document, time, token, visible)
    found = None if event.update is None else rawbson.field(event.update, b"diff")
    if found is None:
        raise PipelineError(f"the update of {in_words(time)} on {event.entry.head.ns} has no diff")
    return RowChange(key, DIFF, found[1], time, token, visible)
