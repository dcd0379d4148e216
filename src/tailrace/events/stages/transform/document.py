"""Stage 3: one entry becomes one event.

A table picks by what the entry is: a document change, a change of a view definition, a command, a no-op that
carries an event. Stateless; what it remembers is the bytes that events of one kind share.
"""

from tailrace.bson import raw as rawbson
from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent, EventKind, EventKinds
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import Head, OplogEntry
from tailrace.events.stages.stage import Batch
from tailrace.events.stages.transform.command import transform_command
from tailrace.events.stages.transform.noop import transform_noop
from tailrace.events.stages.transform.view import transform_view
from tailrace.events.update_diff import is_delta


class Transform:
    """Visible operations in, events out."""

    def __init__(
        self, *, shard: str = "", maps_views: bool = True, supported_noops: frozenset[str] = frozenset()
    ) -> None:
        self._shard = shard
        self._maps_views = maps_views
        self._supported_noops = supported_noops
        self._kinds = EventKinds()
        # What is inserted where, once it is known that it is no view: the shortest way to most events.
        self._inserts: dict[Head, EventKind] = {}

    def __call__(self, batch: Batch[OplogEntry]) -> Batch[ChangeEvent]:
        """Transform a batch; the events before an entry that cannot be transformed are returned."""
        events: list[ChangeEvent] = []
        keep = events.append
        transform = self.transform
        inserts = self._inserts
        shard = self._shard
        try:
            for entry in batch.items:
                kind = inserts.get(entry.head)
                if kind is not None and entry.o2 is not None:
                    keep(ChangeEvent(entry, kind, entry.o2, entry.o, None, None, None, shard))
                    continue
                event = transform(entry)
                event.shard = shard
                event.pre_image = entry.extras.pre_image
                keep(event)
        except CommandError as error:
            return batch.having(events, error, entry.ts)
        return batch.having(events)

    def insert_kind(self, head: Head) -> EventKind:
        """The kind of the inserts into a collection."""
        return self._kinds.of_head(head, "insert")

    def transform(self, entry: OplogEntry) -> ChangeEvent:
        head = entry.head
        op = head.op
        if op == "c":
            return transform_command(entry, self._kinds)
        if op == "n":
            return transform_noop(entry, self._kinds, self._supported_noops)
        if op not in ("i", "u", "d"):
            raise CommandError(11352603, f"an oplog entry has the unknown operation {op!r}")
        if head.ui is None:
            raise CommandError(7826901, f"an entry of {head.ns} has no collection UUID")
        if self._maps_views and head.holds_views:
            return transform_view(entry, self._kinds)
        if op == "i":
            key = entry.o2 if entry.o2 is not None else _id_of(entry.o)
            kind = self._kinds.of_head(head, "insert")
            remember(self._inserts, head, kind)
            return ChangeEvent(entry, kind, key, entry.o)
        if op == "d":
            return ChangeEvent(entry, self._kinds.of_head(head, "delete"), entry.o)
        if entry.o2 is None:
            raise CommandError(40532, f"an update entry of {head.ns} has no document key in `o2`")
        if is_delta(entry.o):
            return ChangeEvent(entry, self._kinds.of_head(head, "update"), entry.o2, None, entry.o)
        return ChangeEvent(entry, self._kinds.of_head(head, "replace"), entry.o2, entry.o)


def _id_of(document: bytes) -> bytes:
    found = rawbson.find(document, b"_id")
    if found is None:
        raise CommandError(40532, "an inserted document has no _id")
    return rawbson.document(rawbson.element(found[0], b"_id", document[found[2] : found[3]]))
