"""Entries that the shared part makes no event of, but some streams do.

There are two kinds. A no-op whose payload names an unknown type is an event for a stream that lists the type
in `supportedEvents`. An entry whose events cannot be computed makes every stream fail that can see it, with
the reason. The history stores the bytes of both, in their place in the order, and a stream that sees one
computes its events.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent, DdlParts, EventKinds
from tailrace.events.oplog_entry import OplogEntry
from tailrace.events.stages.parts import DeploymentPart

_DEFERRED: Final = DdlParts()
"""Known by identity: marks an entry that is in the place of its events"""
_KINDS: Final = EventKinds()


def is_deferred_noop(entry: OplogEntry) -> bool:
    """Whether an entry without events has to be stored: a no-op with a payload."""
    return entry.head.op == "n" and entry.o2 is not None and len(entry.o2) > len(rawbson.EMPTY)


def deferred(entry: OplogEntry, shard: str = "") -> ChangeEvent:
    """An entry in the place of its events; its token sorts where that of a no-op's event would."""
    head = entry.head
    name = rawbson.first_name(entry.o2 or rawbson.EMPTY) if head.op == "n" else None
    operation_type = "" if name is None else name.decode(errors="replace")
    kind = _KINDS.of(operation_type, head.database, head.collection or None, head.ui)
    return ChangeEvent(entry, kind, ddl=_DEFERRED, shard=shard)


def is_deferred(event: ChangeEvent) -> bool:
    """Whether this is an entry in the place of its events."""
    return event.ddl is _DEFERRED


def events_or_deferred(part: DeploymentPart, entry: OplogEntry, shard: str = "") -> list[ChangeEvent]:
    """What the history stores of an entry: its events, or the deferred entry."""
    batch = part.events(entry)
    if batch.failure is not None or (not batch.items and is_deferred_noop(entry)):
        # A stream also shows the events before the one that fails; it finds them again in the entry.
        return [deferred(entry, shard)]
    return batch.items
