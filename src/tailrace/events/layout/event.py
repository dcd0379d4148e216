"""The fields of an event in their order, and which streams show them.

`FIELDS` is the one place that holds the order. A field is left out where its value is None. The images
(`fullDocumentBeforeChange`, `fullDocument` of an update) are appended by their stages.

Changes of documents are nearly all events there are. For those the row is turned into a `Template` once for
each kind and shape: fields that only depend on these become fixed pieces, the others are holes. Documents of
the entry are copied as bytes; nothing is decoded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import CHANGES, ChangeEvent, DdlParts, EventKind, namespace_document
from tailrace.events.layout.template import (
    DOCUMENT,
    KEY,
    SESSION,
    TIME,
    TOKEN,
    TRANSACTION_NUMBER,
    UPDATE,
    WALL,
    Hole,
    Template,
)
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN, Extras, Head, OplogEntry
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.events.update_diff import delta_of, describe, diff_of

_read_int32 = rawbson.INT32_LE.unpack_from
_pack_int64 = rawbson.INT64_LE.pack
_pack_uint64 = rawbson.UINT64_LE.pack
_NO_DDL: Final = DdlParts()
_ID: Final = "_id"
_SAMPLE_DELTA: Final = delta_of(rawbson.document(b"\x03u\0", rawbson.document(b"\x0aa\0")))


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """The options that decide which fields an event shows; streams of one shape show the same bytes.

    Compared by identity; `shape_of` returns the same object for the same options.
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
    return Shape(expanded, raw_update, commit_timestamp, from_migrate, release)


def verbatim_shape(*, expanded: bool) -> Shape:
    """The shape of streams that show document changes with the bytes of the log."""
    return shape_of(expanded=expanded, raw_update=False, commit_timestamp=False, from_migrate=False)


Reader: TypeAlias = Callable[[bytes], tuple[Any, ...]]
Value: TypeAlias = Callable[[ChangeEvent, Shape], bytes | None]


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: int
    """the BSON type; `ELEMENT` if the value is a finished element with its own type"""
    value: Value
    """the value as BSON, None where the event does not show the field"""
    hole: Hole | None = None
    """how its values are named in templates; None if changes of one kind and shape all have the same"""
    of_invalidate: bool = False
    """whether an invalidate event has it too"""

    @property
    def lead(self) -> bytes:
        """Type and name, as they precede the value."""
        return b"" if self.type == ELEMENT else b"%c%b\0" % (self.type, self.name.encode())


ELEMENT: Final = 0
"""The type of a value that is a finished element"""


# -- values -------------------------------------------------------------------------------------------------


def _ddl(event: ChangeEvent) -> DdlParts:
    return event.ddl or _NO_DDL


def _shows_session(event: ChangeEvent) -> bool:
    return event.entry.extras.in_apply_ops or event.kind.operation_type == "endOfTransaction"


def _transaction_number(event: ChangeEvent, _: Shape) -> bytes | None:
    number = event.entry.extras.txn_number
    return None if number is None or not _shows_session(event) else _pack_int64(number)


def _session(event: ChangeEvent, _: Shape) -> bytes | None:
    return event.entry.extras.lsid if _shows_session(event) else None


def _no_value(_event: ChangeEvent, _: Shape) -> bytes | None:
    """Of the token, which has a version besides: it is given to the writer."""
    return None


def _operation_type(event: ChangeEvent, _: Shape) -> bytes:
    return _text(event.kind.operation_type)


def _text(text: str) -> bytes:
    raw = text.encode()
    return rawbson.INT32_LE.pack(len(raw) + 1) + raw + b"\0"


def _time(event: ChangeEvent, _: Shape) -> bytes:
    return _pack_uint64(event.entry.ts)


def _commit_timestamp(event: ChangeEvent, shape: Shape) -> bytes | None:
    time = event.entry.extras.commit_timestamp
    return _pack_uint64(time) if shape.commit_timestamp and time is not None else None


def _uuid(event: ChangeEvent, shape: Shape) -> bytes | None:
    uuid = event.kind.uuid
    return (
        b"\x10\0\0\0\x04" + uuid if uuid is not None and shape.expanded and _ddl(event).shows_uuid else None
    )


def _wall(event: ChangeEvent, shape: Shape) -> bytes | None:
    return event.entry.wall if shape.release.wall_time else None


def _full_document(event: ChangeEvent, _: Shape) -> bytes | None:
    return event.full_document


def _namespace(event: ChangeEvent, _: Shape) -> bytes | None:
    kind = event.kind
    return namespace_document(kind.database, kind.collection) if kind.shows_ns else None


def _document_key(event: ChangeEvent, _: Shape) -> bytes | None:
    return event.document_key


def _operation_description(event: ChangeEvent, shape: Shape) -> bytes | None:
    ddl = _ddl(event)
    return ddl.description if shape.expanded or ddl.always_described else None


def _update_description(event: ChangeEvent, shape: Shape) -> bytes | None:
    if event.update is None or shape.raw_update:
        return None
    release = shape.release
    return describe(
        diff_of(event.update),
        expanded=shape.expanded and release.disambiguated_paths,
        truncations=release.truncated_arrays,
    )


def _raw_update_description(event: ChangeEvent, shape: Shape) -> bytes | None:
    return event.update if shape.raw_update else None


def _state_before_change(event: ChangeEvent, shape: Shape) -> bytes | None:
    return _ddl(event).state_before_change if shape.expanded else None


def _ns_type(event: ChangeEvent, shape: Shape) -> bytes | None:
    ns_type = _ddl(event).ns_type
    return _text(ns_type) if ns_type is not None and shape.release.ns_type else None


def _from_migrate(event: ChangeEvent, shape: Shape) -> bytes | None:
    return b"\x01" if shape.from_migrate and event.entry.extras.from_migrate else None


FIELDS: Final = (
    Field("to", rawbson.DOCUMENT, lambda event, _: _ddl(event).to),
    Field("reshardingUUID", ELEMENT, lambda event, _: _ddl(event).resharding_uuid),
    Field("txnNumber", rawbson.INT64, _transaction_number, TRANSACTION_NUMBER),
    Field("lsid", rawbson.DOCUMENT, _session, SESSION),
    Field(_ID, rawbson.DOCUMENT, _no_value, TOKEN, of_invalidate=True),
    Field("operationType", rawbson.STRING, _operation_type, of_invalidate=True),
    Field("clusterTime", rawbson.TIMESTAMP, _time, TIME, of_invalidate=True),
    Field("commitTimestamp", rawbson.TIMESTAMP, _commit_timestamp),
    Field("collectionUUID", rawbson.BINARY, _uuid),
    Field("wallTime", rawbson.DATE, _wall, WALL, of_invalidate=True),
    Field("fullDocument", rawbson.DOCUMENT, _full_document, DOCUMENT),
    Field("ns", rawbson.DOCUMENT, _namespace),
    Field("documentKey", rawbson.DOCUMENT, _document_key, KEY),
    Field("operationDescription", rawbson.DOCUMENT, _operation_description),
    Field("updateDescription", rawbson.DOCUMENT, _update_description, UPDATE),
    Field("rawUpdateDescription", rawbson.DOCUMENT, _raw_update_description, UPDATE),
    Field("stateBeforeChange", rawbson.DOCUMENT, _state_before_change),
    Field("nsType", rawbson.STRING, _ns_type),
    Field("fromMigrate", rawbson.BOOL, _from_migrate),
)
"""The row, in order"""


# -- the row as templates, and as bytes ---------------------------------------------------------------------

NO_SESSION: Final = 0
WITH_NUMBER: Final = 1
WITH_SESSION: Final = 2
"""Flags: what a change in a transaction shows of it"""

_SAMPLES: Final[dict[str, tuple[bytes | None, bytes | None]]] = {
    "insert": (rawbson.EMPTY, None),
    "replace": (rawbson.EMPTY, None),
    "update": (None, _SAMPLE_DELTA),
    "delete": (None, None),
}
"""By operation type, a document and an update that a change has"""


class ChangeLayout:
    """The events of one kind of document change in one shape: a template, and what fills it."""

    __slots__ = ("_readers", "_steps", "fields", "template", "write")

    def __init__(self, fields: Sequence[Field], kind: EventKind, shape: Shape, session: int) -> None:
        sample = _sample(kind, session)
        present = [
            (field, value)
            for field in fields
            if (value := b"" if field.hole == TOKEN else field.value(sample, shape)) is not None
        ]
        self.fields = tuple(field for field, _ in present if field.hole is not None)
        """those that are holes, in order"""
        pieces: list[bytes | Hole] = []
        for field, value in present:
            pieces += (field.lead, value if field.hole is None else field.hole)
        self.template = Template(pieces)
        names = {f"value{place}": field.value for place, field in enumerate(self.fields)}
        expressions = [
            _INLINE.get(field.value, f"value{place}(event, shape)") for place, field in enumerate(self.fields)
        ]
        self.write: Callable[[ChangeEvent, bytes], bytes] = self.template.writer(
            "event, token", expressions, {**names, "shape": shape, "pack_time": _pack_uint64}
        )
        """(event, its token's document): the event as BSON"""
        self._readers: dict[tuple[Hole, ...], Reader] = {}
        skip = 4
        self._steps: list[tuple[int, int]] = []
        for fixed, field in zip(self.template.fixed, self.fields, strict=False):
            skip += len(fixed)
            self._steps.append((skip, _WIDTHS.get(field.type, 0)))
            skip = 0

    def reader(self, *holes: Hole) -> Reader:
        """A function that returns the values of some holes of an event; None for holes it does not have.

        Compiled as `Template.writer` is.
        """
        found = self._readers.get(holes)
        if found is None:
            lines = ["def read(raw):", "    end = 0"]
            for (skip, width), hole in zip(self._steps, self.template.holes, strict=True):
                size = str(width) if width else "size(raw, start)[0]"
                lines += (f"    start = end + {skip}", f"    end = start + {size}")
                if hole in holes:
                    lines.append(f"    value{holes.index(hole)} = raw[start:end]")
            known = self.template.holes
            values = [f"value{place}" if hole in known else "None" for place, hole in enumerate(holes)]
            lines.append(f"    return ({', '.join(values)},)")
            scope: dict[str, Any] = {"size": _read_int32}
            exec("\n".join(lines), scope)
            found = self._readers[holes] = scope["read"]
        return found

    def jumps_to(self, hole: Hole) -> list[int]:
        """How to find the value of a hole: skip some bytes, then a document and some bytes, and so on."""
        jumps = [0]
        for (skip, width), known in zip(self._steps, self.template.holes, strict=True):
            jumps[-1] += skip
            if known == hole:
                return jumps
            if width:
                jumps[-1] += width
            else:
                jumps.append(0)
        raise KeyError(hole)

    def without(self, other: "ChangeLayout") -> tuple[int, int] | None:
        """Which bytes to cut out of an event of this layout to get one of another layout with the same holes.

        None if they differ in more than that, or if the bytes are not in the same place in all events.
        """
        mine, theirs = self.template, other.template
        if mine.holes != theirs.holes:
            return None
        different = [place for place, piece in enumerate(mine.fixed) if piece != theirs.fixed[place]]
        if not different:
            return 4, 4
        (place,) = different if len(different) == 1 else (0,)
        piece, rest = mine.fixed[place], theirs.fixed[place]
        size = len(piece) - len(rest)
        shared = 0
        while shared < len(rest) and piece[shared] == rest[shared]:
            shared += 1
        before = self._steps[:place]
        if len(different) > 1 or size < 0 or not all(width for _, width in before):
            return None
        start = sum(skip + width for skip, width in before) + shared + (4 if place == 0 else 0)
        return (start, start + size) if piece[:shared] + piece[shared + size :] == rest else None


_WIDTHS: Final = {rawbson.TIMESTAMP: 8, rawbson.DATE: 8, rawbson.INT64: 8, rawbson.INT32: 4, rawbson.BOOL: 1}
"""Sizes of values by type; the values of other holes are documents, which begin with their size"""


_INLINE: Final[dict[Value, str]] = {
    _no_value: "token",
    _time: "pack_time(event.entry.ts)",
    _wall: "event.entry.wall",
    _full_document: "event.full_document",
    _document_key: "event.document_key",
}
"""Values of fields that are present, spelled out where a call would cost more than the value"""


def _sample(kind: EventKind, session: int) -> ChangeEvent:
    document, update = _SAMPLES[kind.operation_type]
    extras = PLAIN
    if session:
        extras = Extras(
            in_apply_ops=True,
            txn_number=0 if session & WITH_NUMBER else None,
            lsid=rawbson.EMPTY if session & WITH_SESSION else None,
        )
    head = Head("", "", None)
    entry = OplogEntry(rawbson.EMPTY, head, rawbson.EMPTY, None, 0, 0, bytes(8), extras)
    return ChangeEvent(entry, kind, rawbson.EMPTY, document, update)


class EventLayout:
    """A row of fields, with the templates made from it so far."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._changes: dict[tuple[EventKind, Shape, int], ChangeLayout] = {}

    @cached_property
    def without_token(self) -> "EventLayout":
        """The same row without `_id`."""
        return EventLayout([field for field in self.fields if field.hole != TOKEN])

    def with_field(self, field: Field, after: str) -> "EventLayout":
        """The same row with one more field."""
        names = [known.name for known in self.fields]
        place = names.index(after) + 1
        return EventLayout([*self.fields[:place], field, *self.fields[place:]])

    def with_token(self, raw: bytes, token: bytes) -> bytes:
        """An event that was written without its token, whole again."""
        names = [field.name for field in self.fields]
        before = {name.encode() for name in names[: names.index(_ID)]}
        end = 4
        for _, name, _, stop in rawbson.elements(raw):
            if name not in before:
                break
            end = stop
        return rawbson.document(
            raw[4:end], rawbson.element(rawbson.DOCUMENT, _ID.encode(), token), raw[end:-1]
        )

    def of_change(self, kind: EventKind, shape: Shape, session: int = NO_SESSION) -> ChangeLayout:
        """The layout of a kind of document change."""
        place = (kind, shape, session)
        found = self._changes.get(place)
        if found is None:
            found = remember(self._changes, place, ChangeLayout(self.fields, kind, shape, session))
        return found

    def write(self, event: ChangeEvent, shape: Shape, token: bytes) -> bytes:
        """Any event as BSON; ``token`` is its token's document."""
        if event.ddl is None and event.cause is None and event.kind.operation_type in CHANGES:
            extras = event.entry.extras
            if extras is PLAIN:
                return self.of_change(event.kind, shape).write(event, token)
            if extras.commit_timestamp is None and not extras.from_migrate:
                return self.of_change(event.kind, shape, session_of(extras)).write(event, token)
        return self._write_fields(event, shape, token)

    def _write_fields(self, event: ChangeEvent, shape: Shape, token: bytes) -> bytes:
        parts: list[bytes] = []
        is_invalidate = event.cause is not None
        for field in self.fields:
            if is_invalidate and not field.of_invalidate:
                continue
            value = token if field.hole == TOKEN else field.value(event, shape)
            if value is not None:
                parts += (field.lead, value)
        return rawbson.document(*parts)


def leading_token(raw: bytes) -> bytes | None:
    """The token document of an event that begins with it; None for any other."""
    if not raw.startswith(_ID_LEAD, 4):
        return None
    return raw[_TOKEN_START : _TOKEN_START + rawbson.INT32_LE.unpack_from(raw, _TOKEN_START)[0]]


_ID_LEAD: Final = next(field.lead for field in FIELDS if field.hole == TOKEN)
_TOKEN_START: Final = 4 + len(_ID_LEAD)


def session_of(extras: Extras) -> int:
    """What a change shows of its transaction, as flags."""
    if not extras.in_apply_ops:
        return NO_SESSION
    return (0 if extras.txn_number is None else WITH_NUMBER) | (0 if extras.lsid is None else WITH_SESSION)


layout = EventLayout(FIELDS)
"""The layout of all events. Read it from this module, so that one assignment changes it everywhere."""
