"""Check and decode a large document in pieces, so that others need not wait for the whole of it.

PyMongo decodes 16 MB of small values in a quarter of a second, and nothing else runs meanwhile. Here large
documents and arrays are walked on their bytes, and their elements are decoded some kilobytes at a time.
"""

from collections.abc import Generator
from typing import Any, Final, TypeAlias, TypeVar

import bson
from bson import Code

from tailrace.bson import raw
from tailrace.bson.documents import decode, encode
from tailrace.bson.repeated import RepeatedFields, with_repeated_fields
from tailrace.mongod.wire.payload_document import (
    MAX_DEPTH,
    OPTIONS,
    check_depth,
    check_size,
    scope_start,
    too_deep,
    walk,
)

LARGE: Final = 256 * 1024
"""Documents and messages above this size are read in steps."""
PIECE: Final = 16 * 1024
_REFERENCE: Final = b"$ref\0"

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Yields when others may run, and returns a result."""


def finished(steps: Steps[T]) -> T:
    """The result, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def large_document(document: bytes, *, keep: bool = True) -> Steps[dict[str, Any]]:
    """Raise like `check_document` if these bytes are not a valid document; returns it decoded.

    Unlike there, what is returned is exact: no type and no repeated field is lost. Without ``keep`` it is
    empty.
    """
    check_size(document)
    found = yield from _read(document, raw.DOCUMENT, 0, 0, keep=keep)
    assert isinstance(found, dict)
    return found


def _read(document: bytes, container: int, start: int, depth: int, *, keep: bool) -> Steps[Any]:
    if depth > MAX_DEPTH:
        raise too_deep()
    found = _Elements(is_array=container == raw.ARRAY)
    first = last = start + 4
    for kind, name, value_start, end in raw.elements(document, start):
        if kind in (raw.DOCUMENT, raw.ARRAY, raw.CODE_WITH_SCOPE) and end - value_start > PIECE:
            if first < last:
                found.add(_piece(document[first:last], found.is_array, depth, keep=keep))
                yield
            value = yield from _large_value(document, kind, value_start, end, depth, keep=keep)
            if container != raw.ARRAY:
                found.add({_name(name): value} if keep else {})
            elif keep:
                found.add([value])
            first = last = end
        else:
            last = end
            if last - first >= PIECE:
                found.add(_piece(document[first:last], found.is_array, depth, keep=keep))
                first = last
                yield
    if first < last:
        found.add(_piece(document[first:last], found.is_array, depth, keep=keep))
    return found.result()


def _large_value(document: bytes, kind: int, start: int, end: int, depth: int, *, keep: bool) -> Steps[Any]:
    if kind != raw.CODE_WITH_SCOPE:
        return (yield from _read(document, kind, start, depth + 1, keep=keep))
    scope = scope_start(document, start, end)
    fields = yield from _read(document, raw.DOCUMENT, scope, depth + 1, keep=keep)
    return Code(raw.string_value(document, start + 4, scope), fields)


def _name(name: bytes) -> str:
    # Checked as part of a document of its own, for the same error.
    return next(iter(decode(_framed(raw.element(raw.NULL, name, b"")))))


def _framed(elements: bytes) -> bytes:
    return b"%b%b\0" % (raw.INT32_LE.pack(len(elements) + 5), elements)


def _piece(elements: bytes, is_array: bool, depth: int, *, keep: bool) -> Any:
    """Some elements of a document or an array, checked and decoded."""
    framed = _framed(elements)
    decoded: dict[str, Any] | None = None
    try:
        decoded = bson.decode(framed, OPTIONS)
    except Exception:  # as in `check_document`
        walk(framed, raw.ARRAY if is_array else raw.DOCUMENT, depth)
    if decoded is not None:
        check_depth(framed, decoded, depth)
    if not keep:
        return [] if is_array else {}
    if decoded is not None and _REFERENCE not in framed and encode(decoded) == framed:
        return list(decoded.values()) if is_array else decoded
    if not is_array:
        return with_repeated_fields(framed, decode(framed))
    held = _framed(raw.element(raw.ARRAY, b"", framed))
    return with_repeated_fields(held, decode(held))[""]


class _Elements:
    """What has been decoded of a document or an array."""

    def __init__(self, *, is_array: bool) -> None:
        self.is_array = is_array
        self._items: list[Any] = []
        self._fields: dict[str, Any] = {}
        self._repeated: str | None = None

    def add(self, found: Any) -> None:
        if self.is_array:
            self._items += found
            return
        if isinstance(found, RepeatedFields):
            self._repeated = found.field
        if not self._fields.keys().isdisjoint(found):
            self._repeated = next(name for name in found if name in self._fields)
        self._fields.update(found)

    def result(self) -> Any:
        if self.is_array:
            return self._items
        if self._repeated is None:
            return self._fields
        marked = RepeatedFields(self._fields)
        marked.field = self._repeated
        return marked
