"""The last step of an event: its BSON, in the fields and the order that this stream shows.

One order covers all kinds (a field is left out unless it applies)::

    to | reshardingUUID | txnNumber lsid, _id, operationType, clusterTime, commitTimestamp, collectionUUID,
    wallTime, fullDocument, ns, documentKey, operationDescription, updateDescription, stateBeforeChange,
    nsType, fromMigrate          ... and then the images: fullDocumentBeforeChange, fullDocument

Documents of the entry are copied as bytes; nothing is decoded.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent, DdlParts, EventKind
from tailrace.events.event_token import id_element, id_elements
from tailrace.events.oplog_entry import PLAIN, InsertedDocuments, OplogEntry
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.events.update_diff import describe, diff_of

_pack_int32 = rawbson.INT32_LE.pack
_pack_int64 = rawbson.INT64_LE.pack
_pack_uint64 = rawbson.UINT64_LE.pack
_NO_DDL: Final = DdlParts()
_WALL_TIME: Final = b"\x09wallTime\0"


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The options that decide which fields an event shows; streams of one shape show the same bytes.

    Compared by identity; `shape_of` hands out the same object for the same options.
    """

    expanded: bool = False
    raw_update: bool = False
    commit_timestamp: bool = False
    from_migrate: bool = False
    release: StreamRelease = CURRENT_RELEASE
    """Older releases leave out some of the fields."""


@cache
def shape_of(
    *,
    expanded: bool,
    raw_update: bool,
    commit_timestamp: bool,
    from_migrate: bool,
    release: StreamRelease = CURRENT_RELEASE,
) -> Shape:
    """The shape of these options."""
    return Shape(expanded, raw_update, commit_timestamp, from_migrate, release)


def render(event: ChangeEvent, shape: Shape, version: int) -> bytes:
    """The event as one BSON document."""
    entry = event.entry
    kind = event.kind
    is_plain = entry.extras is PLAIN or entry.extras.shows_nothing
    if event.ddl is not None or event.cause is not None or not is_plain:
        body = _render_any(event, shape, version)
    else:
        full = event.full_document
        body = b"".join((
            id_element(event, version),
            _kind_and_times(kind, entry.ts, entry.wall, shape.expanded, shape.release.wall_time),
            b"" if full is None else b"\x03fullDocument\0" + full,
            kind.key_lead,
            event.document_key or rawbson.EMPTY,
            b"" if event.update is None else _update_element(event.update, shape),
        ))  # fmt: skip
    return _pack_int32(len(body) + 5) + body + b"\0"


@lru_cache(maxsize=256)
def _kind_and_times(kind: EventKind, ts: int, wall: bytes, expanded: bool, wall_time: bool = True) -> bytes:
    """From `operationType` to `wallTime`: the same for all changes of one kind in an entry."""
    uuid = kind.uuid_element if expanded else b""
    wall_element = _WALL_TIME + wall if wall_time else b""
    return b"%b%b%b%b" % (kind.lead, _pack_uint64(ts), uuid, wall_element)


def _wall_element(entry: OplogEntry, shape: Shape) -> bytes:
    return _WALL_TIME + entry.wall if shape.release.wall_time else b""


def render_inserts(
    kind: EventKind, entry: OplogEntry, inserted: InsertedDocuments, *, expanded: bool
) -> list[bytes] | None:
    """The events of all inserts of one entry, the same bytes as `render` gives for each; version 2.

    They differ in document, key and one number of the token; the rest is put together once. None if a token
    needs the general encoder, or an event is too large to be shown as it is.
    """
    ids = id_elements(kind, entry.ts, inserted.keys)
    if ids is None:
        return None
    lead = _kind_and_times(kind, entry.ts, entry.wall, expanded) + b"\x03fullDocument\0"
    key_lead = kind.key_lead
    fixed = len(lead) + len(key_lead) + 5
    pack, join = _pack_int32, b"".join
    events = [
        join(
            (
                pack(len(identity) + len(document) + len(key) + fixed),
                identity,
                lead,
                document,
                key_lead,
                key,
                b"\0",
            )
        )
        for identity, document, key in zip(ids, inserted.documents, inserted.keys, strict=True)
    ]
    return events if max(map(len, events)) <= rawbson.MAX_INTERNAL_SIZE else None


def render_once(event: ChangeEvent, shape: Shape, version: int) -> bytes:
    """The same for an event that many streams show: those of equal shape get the same bytes."""
    shown = event.shown
    if shown is not None and shown[0] is shape and shown[1] == version:
        return shown[2]
    raw = render(event, shape, version)
    event.shown = (shape, version, raw)
    return raw


def _update_element(update: bytes, shape: Shape) -> bytes:
    if shape.raw_update:
        return b"\x03rawUpdateDescription\0" + update
    release = shape.release
    return b"\x03updateDescription\0" + describe(
        diff_of(update),
        expanded=shape.expanded and release.disambiguated_paths,
        truncations=release.truncated_arrays,
    )


def _render_any(event: ChangeEvent, shape: Shape, version: int) -> bytes:
    entry, kind, extras = event.entry, event.kind, event.entry.extras
    if event.cause is not None:
        return b"".join((
            id_element(event, version),
            kind.lead,
            _pack_uint64(entry.ts),
            _wall_element(entry, shape),
        ))  # fmt: skip
    ddl = event.ddl or _NO_DDL
    parts: list[bytes] = []
    if ddl.to is not None:
        parts.append(rawbson.element(rawbson.DOCUMENT, b"to", ddl.to))
    if ddl.resharding_uuid is not None:
        parts.append(ddl.resharding_uuid)
    if extras.in_apply_ops or kind.operation_type == "endOfTransaction":
        if extras.txn_number is not None:
            parts.append(b"\x12txnNumber\0" + _pack_int64(extras.txn_number))
        if extras.lsid is not None:
            parts.append(b"\x03lsid\0" + extras.lsid)
    parts += (id_element(event, version), kind.lead, _pack_uint64(entry.ts))
    if shape.commit_timestamp and extras.commit_timestamp is not None:
        parts.append(b"\x11commitTimestamp\0" + _pack_uint64(extras.commit_timestamp))
    if shape.expanded and ddl.shows_uuid:
        parts.append(kind.uuid_element)
    parts.append(_wall_element(entry, shape))
    if event.full_document is not None:
        parts += (b"\x03fullDocument\0", event.full_document)
    parts.append(kind.ns_element)
    if event.document_key is not None:
        parts += (b"\x03documentKey\0", event.document_key)
    if ddl.description is not None and (shape.expanded or ddl.always_described):
        parts += (b"\x03operationDescription\0", ddl.description)
    if event.update is not None:
        parts.append(_update_element(event.update, shape))
    if ddl.state_before_change is not None and shape.expanded:
        parts += (b"\x03stateBeforeChange\0", ddl.state_before_change)
    if ddl.ns_type is not None and shape.release.ns_type:
        parts.append(rawbson.string(b"nsType", ddl.ns_type.encode()))
    if shape.from_migrate and extras.from_migrate:
        parts.append(b"\x08fromMigrate\0\x01")
    return b"".join(parts)


def append_fields(raw: bytes, *elements: bytes) -> bytes:
    """The document with finished elements added at its end."""
    return rawbson.document(raw[4:-1], *elements)
