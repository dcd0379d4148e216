"""Take BSON documents apart: for each field and BSON type, which rows have a value and its bytes.

What is read here does not depend on the columns of a table. A row of a nested document counts the nested
documents of that field, so that every level is read and stored in the same way.
"""

from collections.abc import Callable, Iterable
from struct import error
from typing import Any, Final

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError

MAX_LEVELS: Final = 16
"""Documents and arrays that are nested more deeply are not taken apart: their column is JSON or VARIANT"""

_read_int32 = rawbson.INT32_LE.unpack_from
_TEXTS: Final = frozenset({rawbson.STRING, rawbson.SYMBOL})


class ShreddedValues:
    """The values of one BSON type that a field has."""

    __slots__ = ("chunks", "inner", "kind", "rows", "slices")

    def __init__(self, kind: int, level: int) -> None:
        self.kind = kind
        self.rows: list[int] = []
        self.slices: list[bytes] = []
        """The bytes of each value; of strings only the text"""
        self.chunks: Any = None
        """What `chunks.py` made of them"""
        self.inner: ShreddedDocuments | ShreddedItems | None = None
        if level < MAX_LEVELS:
            if kind == rawbson.DOCUMENT:
                self.inner = ShreddedDocuments(level + 1)
            elif kind == rawbson.ARRAY:
                self.inner = ShreddedItems(level + 1)


class ShreddedField:
    """The values of a field, or of the items of arrays, by their BSON type."""

    __slots__ = ("by_kind",)

    def __init__(self) -> None:
        self.by_kind: dict[int, ShreddedValues] = {}


class ShreddedDocuments:
    """The fields of some documents."""

    __slots__ = ("by_name", "count", "heads", "level")

    def __init__(self, level: int = 0) -> None:
        self.level = level
        self.count = 0
        self.by_name: dict[bytes, ShreddedField] = {}
        self.heads: dict[bytes, _Target] = {}
        """By the bytes of an element's type and name"""

    def target(self, head: bytes) -> "_Target":
        field = self.by_name.setdefault(head[1:], ShreddedField())
        values = field.by_kind[head[0]] = ShreddedValues(head[0], self.level)
        found = self.heads[head] = _target(values)
        return found


class ShreddedItems:
    """The items of some arrays."""

    __slots__ = ("count", "field", "level", "sizes", "targets")

    def __init__(self, level: int) -> None:
        self.level = level
        self.count = 0
        self.sizes: list[int] = []
        """How many items each array has"""
        self.field = ShreddedField()
        self.targets: dict[int, _Target] = {}

    def target(self, kind: int) -> "_Target":
        values = self.field.by_kind[kind] = ShreddedValues(kind, self.level)
        found = self.targets[kind] = _target(values)
        return found


_Target = tuple[int, int, Callable[[int], None], Callable[[bytes], None], ShreddedValues]
"""Type, fixed size or -1, where to note row and value"""


def _target(values: ShreddedValues) -> _Target:
    kind = values.kind
    return kind, rawbson.FIXED_SIZE.get(kind, -1), values.rows.append, values.slices.append, values


def shred(documents: Iterable[bytes]) -> ShreddedDocuments:
    """Take some documents apart; raises `BsonError` if one is damaged."""
    fields = ShreddedDocuments()
    for raw in documents:
        try:
            end = _read_int32(raw, 0)[0]
            if end != len(raw):
                raise BsonError(f"a document of {len(raw)} bytes has the length {end}")
            _document(raw, 0, end, fields)
        except (error, IndexError, ValueError):
            raise BsonError("a value runs past the end of its document") from None
    return fields


def _document(raw: bytes, start: int, stop: int, fields: ShreddedDocuments) -> None:
    row = fields.count
    fields.count = row + 1
    end = stop - 1
    if end < start + 4 or raw[end]:
        raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
    heads = fields.heads
    index = raw.index
    position = start + 4
    while position < end:
        value = index(0, position + 1, end)
        head = raw[position:value]
        target = heads.get(head)
        if target is None:
            target = fields.target(head)
        value += 1
        position = _value(raw, value, row, target)
    if position != end:
        raise BsonError(f"a value runs past the end of the document at byte {start}")


def _array(raw: bytes, start: int, stop: int, items: ShreddedItems) -> None:
    first = row = items.count
    end = stop - 1
    if end < start + 4 or raw[end]:
        raise BsonError(f"the array at byte {start} has a wrong length or no final NUL")
    targets = items.targets
    index = raw.index
    position = start + 4
    while position < end:
        target = targets.get(raw[position])
        if target is None:
            target = items.target(raw[position])
        position = _value(raw, index(0, position + 1, end) + 1, row, target)
        row += 1
    if position != end:
        raise BsonError(f"a value runs past the end of the array at byte {start}")
    items.count = row
    items.sizes.append(row - first)


def _value(raw: bytes, start: int, row: int, target: _Target) -> int:
    """Note a value; returns where it ends."""
    kind, size, add_row, add_slice, values = target
    if size >= 0:
        end = start + size
        add_slice(raw[start:end])
    elif kind in _TEXTS:
        end = start + 4 + _read_int32(raw, start)[0]
        if end <= start + 4 or raw[end - 1]:
            raise BsonError(f"the string at byte {start} has a wrong length or no final NUL")
        add_slice(raw[start + 4 : end - 1])
    else:
        end = rawbson.value_end(raw, kind, start)
        add_slice(raw[start:end])
        inner = values.inner
        if isinstance(inner, ShreddedDocuments):
            _document(raw, start, end, inner)
        elif inner is not None:
            _array(raw, start, end, inner)
    add_row(row)
    return end
