"""Events as bytes: the row of fields (`fields.py`) as templates.

Changes of documents are nearly all events there are. For those the row is turned into a `Template` once for
each kind and shape: fields that only depend on these become fixed pieces, the others are holes. Documents of
the entry are copied as bytes; nothing is decoded.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.events.change_event import CHANGES, ChangeEvent, EventKind
from tailrace.events.layout.fields import FIELDS, FULL_DOCUMENT, ID, INLINE, Field, Shape
from tailrace.events.layout.template import TOKEN, Hole, Template
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import PLAIN, Extras, Head, OplogEntry
from tailrace.events.update_diff import delta_of

_read_int32 = rawbson.INT32_LE.unpack_from
_pack_uint64 = rawbson.UINT64_LE.pack
_SAMPLE_DELTA: Final = delta_of(rawbson.document(b"\x03u\0", rawbson.document(b"\x0aa\0")))

Reader: TypeAlias = Callable[[bytes], tuple[Any, ...]]

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
        self._shape = shape
        self._readers: dict[tuple[Hole, ...], Reader] = {}
        skip = 4
        self._steps: list[tuple[int, int]] = []
        for fixed, field in zip(self.template.fixed, self.fields, strict=False):
            skip += len(fixed)
            self._steps.append((skip, _WIDTHS.get(field.type, 0)))
            skip = 0

    @cached_property
    def write(self) -> Callable[[ChangeEvent, bytes], bytes]:
        """(event, its token's document): the event as BSON.

        Compiled on first use: rows that are made many at a time need the template only.
        """
        names = {f"value{place}": field.value for place, field in enumerate(self.fields)}
        expressions = [
            INLINE.get(field.value, f"value{place}(event, shape)") for place, field in enumerate(self.fields)
        ]
        return self.template.writer(
            "event, token", expressions, {**names, "shape": self._shape, "pack_time": _pack_uint64}
        )

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
        return self._with_element(raw, ID, rawbson.element(rawbson.DOCUMENT, ID.encode(), token))

    def with_post_image(self, raw: bytes, element: bytes, shape: Shape) -> bytes:
        """The event of an update with its `fullDocument`, a finished element."""
        if shape.release.post_image_last:
            return rawbson.document(raw[4:-1], element)
        return self._with_element(raw, FULL_DOCUMENT, element)

    def _with_element(self, raw: bytes, name: str, element: bytes) -> bytes:
        before = self._names_before[name]
        end = 4
        for _, found, _, stop in rawbson.elements(raw):
            if found not in before:
                break
            end = stop
        return rawbson.document(raw[4:end], element, raw[end:-1])

    @cached_property
    def _names_before(self) -> dict[str, frozenset[bytes]]:
        names = [field.name.encode() for field in self.fields]
        return {field.name: frozenset(names[:place]) for place, field in enumerate(self.fields)}

    def places(self, event: ChangeEvent, shape: Shape, shown: Collection[str]) -> list[str]:
        """The fields of an event in order, those it shows and those that keep their place."""
        has_places = event.cause is None
        row = [
            field.name
            for field in self.fields
            if field.name in shown or (has_places and field.keeps_place(event, shape))
        ]
        return row + [name for name in shown if name not in row]

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
