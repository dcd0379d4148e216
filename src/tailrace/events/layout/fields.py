"""The fields of an event in their order, and which streams show them.

`FIELDS` is the one place that holds the order. A field is left out where its value is None. Some of those
keep their place nevertheless: what a later stage puts there (the image of an update, a field that the user
sets) is shown in the order of the row. `fullDocumentBeforeChange` is added last, by its stage.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import ChangeEvent, DdlParts, namespace_document
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
)
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.events.update_diff import describe, diff_of

_pack_int64 = rawbson.INT64_LE.pack
_pack_uint64 = rawbson.UINT64_LE.pack
_NO_DDL: Final = DdlParts()
ID: Final = "_id"
FULL_DOCUMENT: Final = "fullDocument"


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


def verbatim_shape(*, expanded: bool, release: StreamRelease = CURRENT_RELEASE) -> Shape:
    """The shape of streams that show document changes with the bytes of the log."""
    return shape_of(
        expanded=expanded, raw_update=False, commit_timestamp=False, from_migrate=False, release=release
    )


Value: TypeAlias = Callable[[ChangeEvent, Shape], bytes | None]
Condition: TypeAlias = Callable[[ChangeEvent, Shape], bool]


def _never(_event: ChangeEvent, _: Shape) -> bool:
    return False


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
    keeps_place: Condition = _never
    """whether it has a place in events that do not show it"""

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
    release = shape.release
    is_shown = release.expanded_wall_time if shape.expanded else release.wall_time
    return event.entry.wall if is_shown else None


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
    is_shown = shape.from_migrate and shape.release.from_migrate
    return b"\x01" if is_shown and event.entry.extras.from_migrate else None


# -- places, as a real 6.0.27 showed them for every kind of event ------------------------------------------


def _is_view(event: ChangeEvent) -> bool:
    return event.ddl is not None and not event.ddl.shows_uuid


def _unless_view(event: ChangeEvent, _: Shape) -> bool:
    return not _is_view(event)


def _if_expanded(event: ChangeEvent, shape: Shape) -> bool:
    return shape.expanded and not _is_view(event)


def _if_view_or_expanded(event: ChangeEvent, shape: Shape) -> bool:
    return shape.expanded or _is_view(event)


def _if_post_image_in_place(event: ChangeEvent, shape: Shape) -> bool:
    return not shape.release.post_image_last and not _is_view(event)


def _if_described(event: ChangeEvent, shape: Shape) -> bool:
    return not shape.raw_update and not _is_view(event)


def _if_described_raw(event: ChangeEvent, shape: Shape) -> bool:
    return shape.raw_update and not _is_view(event)


FIELDS: Final = (
    Field("to", rawbson.DOCUMENT, lambda event, _: _ddl(event).to),
    Field("reshardingUUID", ELEMENT, lambda event, _: _ddl(event).resharding_uuid),
    Field("txnNumber", rawbson.INT64, _transaction_number, TRANSACTION_NUMBER),
    Field("lsid", rawbson.DOCUMENT, _session, SESSION),
    Field(ID, rawbson.DOCUMENT, _no_value, TOKEN, of_invalidate=True),
    Field("operationType", rawbson.STRING, _operation_type, of_invalidate=True),
    Field("clusterTime", rawbson.TIMESTAMP, _time, TIME, of_invalidate=True),
    Field("commitTimestamp", rawbson.TIMESTAMP, _commit_timestamp),
    Field("collectionUUID", rawbson.BINARY, _uuid, keeps_place=_if_expanded),
    Field("wallTime", rawbson.DATE, _wall, WALL, of_invalidate=True),
    Field(FULL_DOCUMENT, rawbson.DOCUMENT, _full_document, DOCUMENT, keeps_place=_if_post_image_in_place),
    Field("ns", rawbson.DOCUMENT, _namespace),
    Field("documentKey", rawbson.DOCUMENT, _document_key, KEY, keeps_place=_unless_view),
    Field("operationDescription", rawbson.DOCUMENT, _operation_description, keeps_place=_if_view_or_expanded),
    Field("updateDescription", rawbson.DOCUMENT, _update_description, UPDATE, keeps_place=_if_described),
    Field(
        "rawUpdateDescription",
        rawbson.DOCUMENT,
        _raw_update_description,
        UPDATE,
        keeps_place=_if_described_raw,
    ),
    Field("stateBeforeChange", rawbson.DOCUMENT, _state_before_change, keeps_place=_unless_view),
    Field("nsType", rawbson.STRING, _ns_type),
    Field("fromMigrate", rawbson.BOOL, _from_migrate),
)
"""The row, in order"""


INLINE: Final[dict[Value, str]] = {
    _no_value: "token",
    _time: "pack_time(event.entry.ts)",
    _wall: "event.entry.wall",
    _full_document: "event.full_document",
    _document_key: "event.document_key",
}
"""Values of fields that are present, spelled out where a call would cost more than the value"""
