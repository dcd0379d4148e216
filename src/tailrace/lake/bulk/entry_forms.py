"""The orders of fields that oplog entries have, found in the entries themselves.

A *form* is what entries with the same fields in the same order share: types and names. A server writes few
forms, and which they are depends on its release and on what clients do (sessions, retries, transactions). One
entry of a form is walked, field by field. All others are compared with it at once, and what differs in any
byte of a type, a name or a size has another form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.bulk.splicing import PADDING, Bytes, MaskedText, Positions, items

_FIXED: Final = {
    rawbson.DOUBLE: 8, rawbson.OBJECT_ID: 12, rawbson.BOOL: 1, rawbson.DATE: 8, rawbson.INT32: 4,
    rawbson.TIMESTAMP: 8, rawbson.INT64: 8,
}  # fmt: skip
SIZED: Final = {
    rawbson.STRING: (1, 4), rawbson.DOCUMENT: (5, 0), rawbson.ARRAY: (5, 0), rawbson.BINARY: (0, 5),
}  # fmt: skip
"""By type, the smallest size that a value may begin with, and what its length is besides"""
_EXPECTED: Final = {
    b"op": rawbson.STRING, b"ns": rawbson.STRING, b"ui": rawbson.BINARY, b"o": rawbson.DOCUMENT,
    b"o2": rawbson.DOCUMENT, b"ts": rawbson.TIMESTAMP, b"t": rawbson.INT64, b"wall": rawbson.DATE,
    b"lsid": rawbson.DOCUMENT, b"txnNumber": rawbson.INT64, b"prevOpTime": rawbson.DOCUMENT,
    b"multiOpType": rawbson.INT32,
}  # fmt: skip
"""The fields that decide what an entry is. An entry that has one twice, or with another type, has no form."""
_DECISIVE: Final = frozenset({b"fromMigrate", b"isTimeseries"})
"""Fields of entries that are left to the general path"""
_UUID_SIZE: Final = 17
_OPTIME: Final = (b"\x1c\0\0\0\x11ts\0", 8, b"\x12t\0", 8)
"""What `prevOpTime` holds, leads and widths in turn; a NUL ends it"""
_LONGEST_LEAD: Final = PADDING - 8
_MOST_FIELDS: Final = 40
_MOST_FORMS: Final = 64
_MOST_NEW: Final = 16
"""How many entries are walked at a time"""


@dataclass(frozen=True, slots=True)
class _Step:
    """A piece that all entries of a form share, and the value after it."""

    lead: bytes
    name: str
    """under which the value's place is remembered; empty if nobody asks for it"""
    width: int
    """of the value; if it has a size of its own, what is added to that"""
    smallest: int | None = None
    """the smallest size; None if the width is fixed"""


@dataclass(slots=True)
class Found:
    """Entries of one form."""

    form: "EntryForm"
    rows: Positions
    """which of all entries they are"""
    places: Mapping[str, Positions]
    """by field, where the values begin; `head` and `head end` are the places of `op`, `ns` and `ui`"""


@dataclass(frozen=True, slots=True)
class _Span:
    """Pieces that all entries of a form share, with values of fixed widths between them: compared at once."""

    text: MaskedText
    places: tuple[tuple[str, int], ...]
    """the fields of which values are asked for, and where these begin in the span"""
    size: int
    """how far the end of the span is, where a value of any size, or the next span, begins"""
    sized: _Step | None = None


def _spans(steps: Sequence[_Step], ending: bytes) -> tuple[_Span, ...]:
    spans: list[_Span] = []
    text, mask = bytearray(), bytearray()
    places: list[tuple[str, int]] = []

    def end_span(sized: _Step | None = None) -> None:
        spans.append(_Span(MaskedText(bytes(text), bytes(mask)), tuple(places), len(text), sized))
        for held in (text, mask, places):
            held.clear()

    def add(lead: bytes) -> None:
        if len(text) + len(lead) > PADDING:
            end_span()
        text.extend(lead)
        mask.extend(b"\xff" * len(lead))

    for step in steps:
        add(step.lead)
        if step.name == "op":
            places.append(("head", len(text) - len(step.lead)))
        if step.name:
            places.append((step.name, len(text)))
        if step.smallest is not None:
            end_span(step)
            continue
        text.extend(bytes(step.width))
        mask.extend(bytes(step.width))
        if step.name == "ui":
            places.append(("head end", len(text)))
    add(ending)
    end_span()
    return tuple(spans)


class EntryForm:
    """Fields in an order."""

    __slots__ = ("_spans", "fields", "has_head")

    def __init__(self, steps: tuple[_Step, ...], ending: bytes) -> None:
        self._spans = _spans(steps, ending)
        names = [step.name for step in steps]
        self.fields = frozenset(names)
        place = names.index("op")
        self.has_head = names[place : place + 3] == ["op", "ns", "ui"]
        """Whether `op`, `ns` and `ui` follow each other, as in every entry that changes a document."""

    def find(self, buffer: Bytes, starts: Positions, ends: Positions, rows: Positions) -> Found:
        """Return which of some documents have this form; ``buffer`` is padded."""
        last = len(buffer) - PADDING
        sizes = items(buffer, "<i4")
        position = starts[rows] + 4
        places: dict[str, Positions] = {}

        def keep(is_kept: npt.NDArray[np.bool_]) -> None:
            nonlocal rows, position, places
            if not is_kept.all():
                rows, position = rows[is_kept], position[is_kept]
                places = {name: values[is_kept] for name, values in places.items()}

        for span in self._spans:
            keep(span.text.found_at(buffer, position))
            if not len(rows):
                return Found(self, rows, {})
            for name, offset in span.places:
                places[name] = position + offset
            position = position + span.size
            # What runs past the end is dropped here, so that nothing is read there.
            if span.sized is None:
                keep(position <= last)
            else:
                size = sizes[position].astype(np.int64)
                position = position + size + span.sized.width
                keep((size >= (span.sized.smallest or 0)) & (position <= last))
        keep(position == ends[rows])
        return Found(self, rows, places)


def form_of(raw: bytes) -> EntryForm | None:
    """Return the form of an entry or of an operation; None if it needs the general path."""
    steps: list[_Step] = []
    seen: set[bytes] = set()
    before = b""
    try:
        for kind, name, start, end in rawbson.elements(raw):
            expected = _EXPECTED.get(name)
            if name in _DECISIVE or (expected is not None and (kind != expected or name in seen)):
                return None
            seen.add(name)
            lead = b"%b%c%b\0" % (before, kind, name)
            before = b""
            named = name.decode() if expected is not None else ""
            if name == b"op":
                if end - start != 6:
                    return None
                steps.append(_Step(lead + b"\x02\0\0\0", named, 2))
            elif name == b"ui":
                if end - start != 4 + _UUID_SIZE:
                    return None
                steps.append(_Step(lead + b"\x10\0\0\0", named, _UUID_SIZE))
            elif name == b"prevOpTime":
                ts_lead, ts_width, t_lead, t_width = _OPTIME
                if end - start != len(ts_lead) + ts_width + len(t_lead) + t_width + 1:
                    return None
                steps += (_Step(lead + ts_lead, named, ts_width), _Step(t_lead, "", t_width))
                before = b"\0"
            elif kind in _FIXED:
                steps.append(_Step(lead, named, _FIXED[kind]))
            elif kind in SIZED:
                smallest, more = SIZED[kind]
                steps.append(_Step(lead, named, more, smallest))
            else:
                return None
    except BsonError:
        return None
    is_usual = {b"op", b"ns", b"o"} <= seen and len(steps) <= _MOST_FIELDS
    if not is_usual or max(len(step.lead) for step in steps) > _LONGEST_LEAD:
        return None
    return EntryForm(tuple(steps), before + b"\0")


class EntryForms:
    """The forms found so far. One object may be used by several threads."""

    def __init__(self) -> None:
        self._known: tuple[EntryForm, ...] = ()

    def find(self, buffer: Bytes, starts: Positions, ends: Positions) -> list[Found]:
        """Return documents by their forms; those that are in none need the general path.

        ``buffer`` is padded.
        """
        all_found: list[Found] = []
        counts: dict[EntryForm, int] = {}
        sizes = items(buffer, "<i4")[starts] if len(starts) else starts
        is_whole = (ends - starts >= 5) & (sizes == ends - starts)
        waiting = np.flatnonzero(is_whole)
        known = self._known
        for form in known:
            if not len(waiting):
                break
            found = form.find(buffer, starts, ends, waiting)
            counts[form] = len(found.rows)
            if len(found.rows):
                waiting = _others(waiting, found.rows, len(starts))
                all_found.append(found)
        for _ in range(_MOST_NEW):
            if not len(waiting):
                break
            first = int(waiting[0])
            new = form_of(buffer[int(starts[first]) : int(ends[first])].tobytes())
            waiting = waiting[1:]
            if new is not None:
                found = new.find(buffer, starts, ends, np.concatenate([[first], waiting]))
                if len(found.rows):
                    counts[new] = len(found.rows)
                    known = (*known, new)
                    waiting = _others(waiting, found.rows, len(starts))
                    all_found.append(found)
        # The most frequent ones first: each form is compared with what the forms before it have left.
        self._known = tuple(sorted(known, key=lambda form: -counts.get(form, 0))[:_MOST_FORMS])
        return all_found


def _others(waiting: Positions, found: Positions, count: int) -> Positions:
    is_found = np.zeros(count, np.bool_)
    is_found[found] = True
    return waiting[~is_found[waiting]]
