"""Decode a large document in pieces, so that others need not wait for the whole of it.

PyMongo decodes 16 MB of small values in a quarter of a second, and nothing else runs meanwhile. Here large
documents and arrays are walked on their bytes, and their elements are decoded some kilobytes at a time.
"""

import re
from collections.abc import Generator
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from bson import Code

from tailrace.bson import raw
from tailrace.errors import BsonError
from tailrace.unused import freed_in_pieces

LARGE: Final = 256 * 1024
"""Documents and messages above this size are read in steps."""
PIECE: Final = 16 * 1024

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Yields when others may run, and returns a result."""

_CONTAINERS: Final = frozenset({raw.DOCUMENT, raw.ARRAY, raw.CODE_WITH_SCOPE})
_FIXED: Final = re.compile(
    rb"(?:[\x01\x09\x11\x12][^\0]*+\0.{8}|\x10[^\0]*+\0.{4}|[\x06\x0a\x7f\xff][^\0]*+\0|\x08[^\0]*+\0."
    rb"|\x07[^\0]*+\0.{12}|\x13[^\0]*+\0.{16}|[\x03\x04][^\0]*+\0\x05\0{4})*+",
    re.DOTALL,
)
"""Elements of types with a fixed size, and empty containers: long arrays of them are walked in C."""
_VARIABLE: Final = frozenset({raw.STRING, raw.BINARY, raw.REGEX, raw.CODE, raw.CODE_WITH_SCOPE, raw.SYMBOL})


class Pieces(Protocol):
    """How the pieces of a document are decoded; ``depth`` is how many containers are around its values."""

    def enter(self, depth: int) -> None:
        """Called for each large container."""

    def fields(self, piece: bytes, depth: int) -> dict[str, Any]:
        """Decode some fields, framed as a document."""

    def items(self, piece: bytes, depth: int) -> list[Any]:
        """Decode some elements of an array, framed as a document."""

    def add(self, fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        """Join fields with those that follow; may change the former."""

    def scope_start(self, document: bytes, start: int, end: int) -> int:
        """Where the scope begins in a code with scope."""


def read_in_pieces(document: bytes, how: Pieces) -> Steps[dict[str, Any]]:
    """Decode a document; raises `BsonError`, or what ``how`` raises, if it is not valid."""
    found: dict[str, Any] = yield from _read(document, raw.DOCUMENT, 0, 0, how)
    return found


def _read(document: bytes, container: int, start: int, depth: int, how: Pieces) -> Steps[Any]:
    how.enter(depth)
    items: list[Any] = []
    fields: dict[str, Any] = {}
    is_array = container == raw.ARRAY
    position = start + 4
    end = raw.document_end(document, start)
    while position < end:
        cut, large = _next_cut(document, position, end)
        if position < cut:
            # One long string is not copied again.
            is_whole = position == start + 4 and cut == end and end + 1 == len(document)
            piece = document[start:] if is_whole else _framed(document[position:cut])
            if is_array:
                items += how.items(piece, depth)
            else:
                fields = how.add(fields, how.fields(piece, depth))
            position = cut
            yield
        if large is not None:
            kind, name, value_start, position = large
            value = yield from _large_value(document, kind, value_start, position, depth, how)
            if is_array:  # the names in an array are never read
                items.append(value)
            else:
                only_name = _framed(raw.element(raw.NULL, name, b""))
                fields = how.add(fields, dict.fromkeys(how.fields(only_name, depth), value))
    return freed_in_pieces(items) if is_array else freed_in_pieces(fields)


def _next_cut(document: bytes, position: int, end: int) -> tuple[int, raw.Element | None]:
    """Where the piece that begins at ``position`` ends, and the element there if it is large."""
    index, match, value_end = document.index, _FIXED.match, raw.value_end
    soon = min(position + PIECE, end)
    while position < soon:
        kind = document[position]
        if kind not in _VARIABLE:
            fixed = match(document, position, soon)
            if fixed is not None and fixed.end() > position:
                position = fixed.end()
                continue
        try:
            value_start = index(0, position + 1, end) + 1
        except ValueError:
            raise BsonError(f"a field name at byte {position + 1} has no end") from None
        stop = value_end(document, kind, value_start)
        if stop > end:
            raise BsonError(f"a value that starts at byte {value_start} runs past the end of its document")
        if stop - value_start > PIECE and kind in _CONTAINERS:
            return position, (kind, document[position + 1 : value_start - 1], value_start, stop)
        position = stop
    return position, None


def _large_value(document: bytes, kind: int, start: int, end: int, depth: int, how: Pieces) -> Steps[Any]:
    if kind != raw.CODE_WITH_SCOPE:
        return (yield from _read(document, kind, start, depth + 1, how))
    scope = how.scope_start(document, start, end)
    fields = yield from _read(document, raw.DOCUMENT, scope, depth + 1, how)
    return Code(raw.string_value(document, start + 4, scope), fields)


def _framed(elements: bytes) -> bytes:
    return b"%b%b\0" % (raw.INT32_LE.pack(len(elements) + 5), elements)
