"""The last step of an event: its BSON, in the fields and the order that this stream shows.

The order is that of `events/layout/fields.py`.
"""

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent, EventKind
from tailrace.events.entry_reader import InsertedDocuments
from tailrace.events.event_token import token_document, token_documents
from tailrace.events.layout import event as events
from tailrace.events.layout.fields import Shape, shape_of
from tailrace.events.layout.template import DOCUMENT, KEY, TIME, TOKEN, WALL
from tailrace.events.oplog_entry import OplogEntry


def render(event: ChangeEvent, shape: Shape, version: int) -> bytes:
    """The event as one BSON document."""
    return events.layout.write(event, shape, token_document(event, version))


def render_inserts(
    kind: EventKind, entry: OplogEntry, inserted: InsertedDocuments, shape: Shape
) -> list[bytes] | None:
    """The events of all inserts of one entry, the same bytes as `render` gives for each; version 2.

    They differ in document, key and one number of the token; the rest is filled in once. None if a token
    needs the general encoder, if an event is too large to be shown in one piece, or if the layout has a
    field that is not known for all of them.
    """
    tokens = token_documents(kind, entry.ts, inserted.keys)
    if tokens is None:
        return None
    columns = {TOKEN: tokens, DOCUMENT: inserted.documents, KEY: inserted.keys}
    shared = {TIME: rawbson.UINT64_LE.pack(entry.ts), WALL: entry.wall}
    template = events.layout.of_change(kind, shape).template.bound(shared)
    if any(hole not in columns for hole in template.holes):
        return None
    found = template.documents([columns[hole] for hole in template.holes])
    return found if max(map(len, found)) <= rawbson.MAX_INTERNAL_SIZE else None


def render_once(event: ChangeEvent, shape: Shape, version: int) -> bytes:
    """The same for an event that many streams show: those of equal shape get the same bytes."""
    shown = event.shown
    if shown is not None and shown[0] is shape and shown[1] == version:
        return shown[2]
    raw = render(event, shape, version)
    event.shown = (shape, version, raw)
    return raw


def append_fields(raw: bytes, *elements: bytes) -> bytes:
    """The document with finished elements added at its end."""
    return rawbson.document(raw[4:-1], *elements)


__all__ = ["Shape", "append_fields", "render", "render_inserts", "render_once", "shape_of"]
