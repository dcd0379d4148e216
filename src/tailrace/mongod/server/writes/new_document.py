"""Prepare documents for storing: `_id` first, empty timestamps filled in.

Documents stay bytes. The common case, a document that begins with `_id` and has no empty timestamp, is
detected by a few bytes; otherwise the bytes are spliced.
"""

import re
from typing import Any, Final

from bson import ObjectId

from tailrace.bson import documents
from tailrace.bson import raw as rawbson
from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.clock import ClusterClock

MAX_DEPTH: Final = 180
"""Maximum nesting of a stored document; the rest of BSON's 200 levels is for what contains it."""

_ID_IN_FRONT: Final = b"_id\0"
_MAYBE_EMPTY_TIMESTAMP: Final = re.compile(rb"\x11[^\0]*\0\0{8}")
_PLAIN_ID_TYPES: Final = frozenset(
    {
        rawbson.DOUBLE, rawbson.STRING, rawbson.BINARY, rawbson.OBJECT_ID, rawbson.BOOL, rawbson.DATE,
        rawbson.NULL, rawbson.INT32, rawbson.TIMESTAMP, rawbson.INT64, rawbson.DECIMAL128, rawbson.MIN_KEY,
        rawbson.MAX_KEY, rawbson.CODE, rawbson.SYMBOL, rawbson.DB_POINTER, rawbson.CODE_WITH_SCOPE,
    }
)  # fmt: skip
_NO_ID_TYPES: Final = frozenset({rawbson.ARRAY, rawbson.UNDEFINED, rawbson.REGEX})


def storable(
    document: bytes,
    clock: ClusterClock,
    *,
    fill_timestamps: bool = True,
    code_if_large: int = ErrorCode.BSONObjectTooLarge,
) -> bytes:
    """The document to store for a client's document; raises if it cannot be stored."""
    if document[5:9] != _ID_IN_FRONT or document.find(_ID_IN_FRONT, 9) >= 0:
        document = _with_id_in_front(document)
    if document[4] not in _PLAIN_ID_TYPES:
        _check_id(document)
    if fill_timestamps and _MAYBE_EMPTY_TIMESTAMP.search(document):
        document = _with_timestamps(document, clock)
    check_size(document, code_if_large)
    if len(document) > MAX_DEPTH and rawbson.most_levels(document) > MAX_DEPTH:
        _check_depth(document)
    return document


def check_size(document: bytes, code: int = ErrorCode.BSONObjectTooLarge) -> None:
    if len(document) > rawbson.MAX_USER_SIZE:
        reason = (
            f"object to insert too large. size in bytes: {len(document)}, max size: {rawbson.MAX_USER_SIZE}"
        )
        raise CommandError(code, reason)


def _with_id_in_front(document: bytes) -> bytes:
    found = [element for element in rawbson.elements(document) if element[1] == b"_id"]
    if len(found) > 1:
        raise CommandError(ErrorCode.BadValue, "can't have multiple _id fields in one document")
    if not found:
        new = rawbson.element(rawbson.OBJECT_ID, b"_id", ObjectId().binary)
        return rawbson.document(new, rawbson.body(document))
    kind, _, start, end = found[0]
    if start == 9:
        return document
    moved = rawbson.element(kind, b"_id", document[start:end])
    return rawbson.document(moved, document[4 : start - 5], document[end:-1])


def _check_id(document: bytes) -> None:
    kind, _, start, end = next(rawbson.elements(document))
    if kind in _NO_ID_TYPES:
        found: Any = documents.decode_value(document, kind, start, end)
        reason = f"The '_id' value cannot be of type {type_name(found)}"
        raise CommandError(ErrorCode.InvalidIdField, reason)
    for _, name, _, _ in rawbson.elements(document, start):
        if name.startswith(b"$"):
            shown = name.decode()
            reason = f"_id fields may not contain '$'-prefixed fields: {shown} is not valid for storage."
            raise CommandError(ErrorCode.DollarPrefixedFieldName, reason)


def _with_timestamps(document: bytes, clock: ClusterClock) -> bytes:
    """Fill in the empty timestamps at the top level, except that of `_id`."""
    filled = bytearray(document)
    for kind, name, start, end in rawbson.elements(document):
        if kind == rawbson.TIMESTAMP and name != b"_id" and not any(document[start:end]):
            filled[start:end] = rawbson.UINT64_LE.pack(clock.tick())
    return bytes(filled)


def _check_depth(document: bytes) -> None:
    level = [0]
    for _ in range(MAX_DEPTH):
        level = [
            start
            for outer in level
            for kind, _, start, _ in rawbson.elements(document, outer)
            if kind in (rawbson.DOCUMENT, rawbson.ARRAY)
        ]
        if not level:
            return
    reason = f"Document exceeds the maximum depth of {MAX_DEPTH} levels"
    raise CommandError(ErrorCode.Overflow, reason)
