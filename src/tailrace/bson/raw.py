"""Read and splice BSON without decoding it.

A document is its bytes. `elements` yields tuples ``(type, name, start, end)``: the type byte, the name as
bytes, and the offsets of the value's bytes (without type and name). Nothing is copied until a caller slices.
Documents that are only passed on are never turned into Python values, which makes Tailrace faster than a
decode-encode loop.
"""

import struct
from collections.abc import Container, Iterator
from struct import Struct
from typing import Final, TypeAlias

from tailrace.errors import BsonError

Element: TypeAlias = tuple[int, bytes, int, int]
"""(type byte, field name, value start, value end)"""

DOUBLE: Final = 0x01
STRING: Final = 0x02
DOCUMENT: Final = 0x03
ARRAY: Final = 0x04
BINARY: Final = 0x05
UNDEFINED: Final = 0x06
OBJECT_ID: Final = 0x07
BOOL: Final = 0x08
DATE: Final = 0x09
NULL: Final = 0x0A
REGEX: Final = 0x0B
DB_POINTER: Final = 0x0C
CODE: Final = 0x0D
SYMBOL: Final = 0x0E
CODE_WITH_SCOPE: Final = 0x0F
INT32: Final = 0x10
TIMESTAMP: Final = 0x11
INT64: Final = 0x12
DECIMAL128: Final = 0x13
MAX_KEY: Final = 0x7F
MIN_KEY: Final = 0xFF

OLD_BINARY_SUBTYPE: Final = 2
"""The subtype of BinData that repeats its length inside its payload"""

MAX_USER_SIZE: Final = 16 * 1024 * 1024
"""Size limit of a stored document"""
MAX_INTERNAL_SIZE: Final = MAX_USER_SIZE + 16 * 1024
"""Size limit of the server's documents that contain a stored one"""

EMPTY: Final = b"\x05\x00\x00\x00\x00"

INT32_LE: Final = Struct("<i")
INT64_LE: Final = Struct("<q")
UINT64_LE: Final = Struct("<Q")
_read_int32 = INT32_LE.unpack_from

FIXED_SIZE: Final[dict[int, int]] = {
    DOUBLE: 8, UNDEFINED: 0, OBJECT_ID: 12, BOOL: 1, DATE: 8, NULL: 0, INT32: 4, TIMESTAMP: 8, INT64: 8,
    DECIMAL128: 16, MAX_KEY: 0, MIN_KEY: 0,
}  # fmt: skip
"""Value sizes of types with a fixed size; `value_end` has the others."""
LENGTH_PREFIXED: Final = frozenset({STRING, CODE, SYMBOL})
"""Types whose values are a length and a text of that length, with a NUL at its end."""
_NESTING: Final = (DOCUMENT, ARRAY, CODE_WITH_SCOPE)
_SELF_SIZED: Final = frozenset(_NESTING)
_LONG: Final = 1 << 16


def most_levels(raw: bytes) -> int:
    """How deeply values can be nested in a document at most: each level has a byte with its type."""
    if len(raw) < _LONG:
        return sum(map(raw.count, _NESTING))
    # A byte that does not occur is searched many times faster than counted.
    return sum(raw.count(kind) for kind in _NESTING if kind in raw)


def value_end(raw: bytes, kind: int, start: int) -> int:
    """The end of the value of type ``kind`` that begins at ``start``."""
    size = FIXED_SIZE.get(kind)
    if size is not None:
        return start + size
    try:
        if kind in LENGTH_PREFIXED:
            length: int = _read_int32(raw, start)[0]
            minimum, end = 1, start + 4 + length
        elif kind in _SELF_SIZED:
            length = _read_int32(raw, start)[0]
            minimum, end = 5, start + length
        elif kind == BINARY:
            length = _read_int32(raw, start)[0]
            minimum, end = 0, start + 5 + length
        elif kind == REGEX:
            return raw.index(0, raw.index(0, start) + 1) + 1
        elif kind == DB_POINTER:
            length = _read_int32(raw, start)[0]
            minimum, end = 1, start + 16 + length
        else:
            raise BsonError(f"unknown BSON type byte 0x{kind:02x} before byte {start}")
    except (struct.error, ValueError):
        raise BsonError(f"a value that starts at byte {start} runs past the end of the document") from None
    if length < minimum:
        raise BsonError(f"impossible length {length} at byte {start}")
    return end


def document_end(raw: bytes, start: int) -> int:
    """The position of the final NUL of the document that begins at ``start``."""
    try:
        end: int = start + _read_int32(raw, start)[0] - 1
    except struct.error:
        raise BsonError("a document is shorter than its length field") from None
    if end >= len(raw) or end < start + 4 or raw[end]:
        raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
    return end


def elements(raw: bytes, start: int = 0) -> Iterator[Element]:
    """The elements of the document that begins at byte ``start`` of ``raw``, in order.

    >>> doc = bytes.fromhex("0f000000 02 6100 03000000 686900 00")
    >>> list(elements(doc))
    [(2, b'a', 7, 14)]
    """
    # `document_end` inlined: most documents are small, and a call would be noticeable.
    try:
        end = start + _read_int32(raw, start)[0] - 1
    except struct.error:
        raise BsonError("a document is shorter than its length field") from None
    if end >= len(raw) or end < start + 4 or raw[end]:
        raise BsonError(f"the document at byte {start} has a wrong length or no final NUL")
    index = raw.index
    position = start + 4
    fixed = FIXED_SIZE
    while position < end:
        kind = raw[position]
        try:
            name_end = index(0, position + 1, end)
        except ValueError:
            raise BsonError(f"a field name at byte {position + 1} has no end") from None
        value_start = name_end + 1
        size = fixed.get(kind)
        stop = value_start + size if size is not None else value_end(raw, kind, value_start)
        if stop > end:
            raise BsonError(f"a value that starts at byte {value_start} runs past the end of its document")
        yield kind, raw[position + 1 : name_end], value_start, stop
        position = stop


def prefixed(raw: bytes, start: int, prefix: bytes) -> list[bytes]:
    """The elements of the document at ``start`` as bytes, with ``prefix`` before their names.

    >>> [part.hex(" ") for part in prefixed(bytes.fromhex("0c000000 10 6100 01000000 00"), 0, b"x.")]
    ['10 78 2e 61 00 01 00 00 00']
    """
    # `elements` inlined: name and value are one slice here, and updates of subdocuments are frequent.
    end = start + _read_int32(raw, start)[0] - 1
    position = start + 4
    found = []
    while position < end:
        kind = raw[position]
        try:
            value = raw.index(0, position + 1, end) + 1
        except ValueError:
            raise BsonError(f"a field name at byte {position + 1} has no end") from None
        size = FIXED_SIZE.get(kind)
        stop = value + size if size is not None else value_end(raw, kind, value)
        if stop > end:
            raise BsonError(f"a value that starts at byte {value} runs past the end of its document")
        found.append(b"%c%b%b" % (kind, prefix, raw[position + 1 : stop]))
        position = stop
    return found


def find(raw: bytes, name: bytes) -> Element | None:
    """The first top-level element called ``name``, or None."""
    for element in elements(raw):
        if element[1] == name:
            return element
    return None


def field(raw: bytes, name: bytes) -> tuple[int, bytes] | None:
    """Type byte and value bytes of the first field called ``name``, or None."""
    found = find(raw, name)
    return None if found is None else (found[0], raw[found[2] : found[3]])


def subdocument(raw: bytes, name: bytes) -> bytes | None:
    """The bytes of the embedded document called ``name``; None if it is missing or of another type."""
    found = find(raw, name)
    return None if found is None or found[0] != DOCUMENT else raw[found[2] : found[3]]


def subdocument_places(raw: bytes, start: int) -> Iterator[tuple[int, int] | None]:
    """Where the documents of the array or document at ``start`` are; None for an element of another type.

    >>> array = document(element(DOCUMENT, b"0", EMPTY), element(NULL, b"1", b""))
    >>> list(subdocument_places(array, 0))
    [(7, 12), None]
    """
    # `elements` inlined: names are skipped, and batches of operations are long.
    end = document_end(raw, start)
    try:
        index = raw.index
        position = start + 4
        while position < end:
            kind = raw[position]
            value = index(0, position + 1, end) + 1
            if kind == DOCUMENT:
                position = value + _read_int32(raw, value)[0]
                if not value + 5 <= position <= end:
                    raise BsonError(f"the document at byte {value} does not fit into the one around it")
                yield value, position
            else:
                position = value_end(raw, kind, value)
                yield None
    except (ValueError, struct.error):
        raise BsonError(f"an element of the document at byte {start} has no end") from None


def first_name(raw: bytes) -> bytes | None:
    """The name of the first field; None for an empty document."""
    if len(raw) <= 5:
        return None
    return raw[5 : raw.index(0, 5)]


def first_text(raw: bytes) -> str | None:
    """The text of the first field; None if there is none, or it is not a string."""
    return text(raw, next(elements(raw), None))


def document(*parts: bytes) -> bytes:
    """A document of encoded elements.

    >>> document(element(INT32, b"a", (1).to_bytes(4, "little"))).hex()
    '0c0000001061000100000000'
    """
    body = b"".join(parts)
    return INT32_LE.pack(len(body) + 5) + body + b"\0"


def element(kind: int, name: bytes, value: bytes) -> bytes:
    """An encoded element."""
    return b"%c%b\0%b" % (kind, name, value)


def string(name: bytes, text: bytes) -> bytes:
    """An encoded string element."""
    return b"\x02%b\0%b%b\0" % (name, INT32_LE.pack(len(text) + 1), text)


def framed(text: bytes) -> bytes:
    """The value bytes of a string, code or symbol: length, text, NUL."""
    return INT32_LE.pack(len(text) + 1) + text + b"\0"


def scope_start(raw: bytes, start: int) -> int:
    """Where the scope begins in the code with scope at ``start``."""
    return value_end(raw, STRING, start + 4)


def body(raw: bytes) -> bytes:
    """The elements of a document without length and final NUL; an argument for `document`."""
    return raw[4:-1]


def without(raw: bytes, names: Container[bytes]) -> bytes:
    """The document without its top-level fields called ``names``."""
    kept = []
    copied_from = position = 4
    for _kind, name, _, end in elements(raw):
        if name in names:
            kept.append(raw[copied_from:position])
            copied_from = end
        position = end
    if not kept:
        return raw
    kept.append(raw[copied_from:-1])
    return document(*kept)


def text(raw: bytes, found: Element | None) -> str | None:
    """The text of an element of ``raw``; None if there is no element, or it is not a string."""
    if found is None or found[0] != STRING:
        return None
    return string_value(raw, found[2], found[3])


def string_value(raw: bytes, start: int, end: int) -> str:
    """The text of a string, code or symbol value."""
    try:
        return raw[start + 4 : end - 1].decode()
    except UnicodeDecodeError:
        raise BsonError(f"the string at byte {start} is not UTF-8") from None
