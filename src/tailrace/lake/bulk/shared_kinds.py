"""What the changes of one operation on one collection share: the stages show it by one of them."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.layout.entry import O2_LEAD, O_LEAD, tail
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN
from tailrace.lake.bulk.columns import SharedParts
from tailrace.lake.bulk.compiled import ChangeSample
from tailrace.lake.bulk.plain_entries import DELETED, OPERATIONS, Part, PlainEntries
from tailrace.lake.rows import names_of

EventsOf: TypeAlias = Callable[[str, Sequence[bytes]], Sequence[ChangeEvent]]
"""(shard, entries of it in order): their canonical events"""


class SharedKinds:
    """Finds what changes share; remembers it."""

    def __init__(self, events_of: EventsOf) -> None:
        self._events_of = events_of
        self._known: dict[tuple[str, bytes, int], SharedParts] = {}

    def __call__(
        self, shard: str, head: bytes, operation: int, sample: Callable[[], ChangeSample]
    ) -> SharedParts | None:
        """What all changes with one head share; None if they need the general path."""
        place = (shard, head, operation)
        if place in self._known:
            return self._known[place]
        try:
            events = self._events_of(shard, [_as_entry(head, operation, sample())])
        except CommandError:
            return None  # the general path raises it, unless the change is inside of a transaction
        if len(events) != 1:
            return None
        event = events[0]
        if event.ddl is not None or event.entry.extras is not PLAIN or event.document_key is None:
            return None
        if OPERATIONS.get(event.kind.operation_type) != operation:
            return None
        return remember(self._known, place, shared_parts(event, shard))


def sample_of(entries: PlainEntries, row: int) -> ChangeSample:
    """One of some changes."""

    def bytes_of(start: Part, size: Part) -> bytes:
        place = int(entries.part(start)[row])
        return entries.memory[place : place + int(entries.part(size)[row])]

    one = entries.at(np.array([row]))
    o, key = bytes_of(Part.O, Part.O_SIZE), bytes_of(Part.KEY, Part.KEY_SIZE)
    return ChangeSample(o, key, int(one.ts[0]), int(one.wall[0]))


def _as_entry(head: bytes, operation: int, sample: ChangeSample) -> bytes:
    """A change as an entry of its own, without a session."""
    documents = [O_LEAD, sample.o]
    if operation != DELETED:
        documents += (O2_LEAD, sample.key)
    return rawbson.document(head, *documents, tail(sample.ts, 1, sample.wall))


def shared_parts(event: ChangeEvent, shard: str | None = None) -> SharedParts:
    """What the rows of document changes of a shard like this one share."""
    kind = event.kind
    return SharedParts(kind, event.entry.head.ns, names_of(kind), event.shard if shard is None else shard)
