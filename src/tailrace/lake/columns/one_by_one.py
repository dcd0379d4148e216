"""Take documents apart one by one: those that are like few others, or hold rare types."""

from struct import error

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError
from tailrace.lake.columns.shredded import TEXTS, ShreddedDocuments, ShreddedItems, Target

_read_int32 = rawbson.INT32_LE.unpack_from


def shred_document(raw: bytes, row: int, fields: ShreddedDocuments) -> None:
    """Note the values of a document; raises `BsonError` if it is damaged."""
    try:
        end = _read_int32(raw, 0)[0]
        if end != len(raw):
            raise BsonError(f"a document of {len(raw)} bytes has the length {end}")
        _document(raw, 0, end, row, fields)
    except (error, IndexError, ValueError):
        raise BsonError("a value runs past the end of its document") from None


def _document(raw: bytes, start: int, stop: int, row: int, fields: ShreddedDocuments) -> None:
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


def _value(raw: bytes, start: int, row: int, target: Target) -> int:
    """Note a value; returns where it ends."""
    kind, size, add_row, add_slice, values = target
    if size >= 0:
        end = start + size
        add_slice(raw[start:end])
    elif kind in TEXTS:
        end = start + 4 + _read_int32(raw, start)[0]
        if end <= start + 4 or raw[end - 1]:
            raise BsonError(f"the string at byte {start} has a wrong length or no final NUL")
        add_slice(raw[start + 4 : end - 1])
    else:
        end = rawbson.value_end(raw, kind, start)
        add_slice(raw[start:end])
        inner = values.inner
        if isinstance(inner, ShreddedDocuments):
            _document(raw, start, end, inner.count, inner)
            inner.count += 1
        elif inner is not None:
            _array(raw, start, end, inner)
    add_row(row)
    return end
