"""Convert BSON to Python values and back, without losing a type.

PyMongo's C codec loses three deprecated types and reorders documents that look like a DBRef; documents with
one of these take a slower path in Python, which keeps them.

>>> decode(encode({"a": Symbol("x")}))
{'a': Symbol(text='x')}
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, NoReturn

import bson
from bson import Binary, Code, CodecOptions, DatetimeMS, ObjectId
from bson.binary import UuidRepresentation
from bson.codec_options import DatetimeConversion, TypeRegistry
from bson.errors import InvalidBSON

from tailrace.bson import raw as rawbson
from tailrace.bson.in_pieces import LARGE, read_in_pieces
from tailrace.bson.values import DBPointer, Symbol, Undefined
from tailrace.errors import BsonError
from tailrace.pacing import is_paced, tick, ticked

_OPTIONS: Final[CodecOptions[dict[str, Any]]] = CodecOptions(
    document_class=dict,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    uuid_representation=UuidRepresentation.UNSPECIFIED,
)
# Bytes that could be the type byte of a lossy element. Most documents contain one of them, so a hit proves
# nothing; only a document that changes when it is encoded again is checked by `_is_lossy`.
_MAYBE_LOSSY: Final = re.compile(rb"[\x06\x0c\x0e]")
# The field name that makes PyMongo build a DBRef.
_REFERENCE: Final = b"$ref\0"
_USER_SUBTYPE_255: Final = 255
_UUID_SUBTYPES: Final = (3, 4)
_UUID_VALUE_SIZE: Final = 4 + 1 + 16
_MANY: Final = 1000
"""Elements that are encoded in one step."""
_LEVELS: Final = 3
_LOSSY_TYPES: Final = frozenset({rawbson.UNDEFINED, rawbson.DB_POINTER, rawbson.SYMBOL})


def decode(raw: bytes, *, whole: bool = False) -> dict[str, Any]:
    """The document as a dict; every BSON type has its own Python type.

    A large one is decoded in pieces, with ticks, unless ``whole``.
    """
    try:
        if len(raw) > LARGE and not whole and is_paced():
            return ticked(read_in_pieces(raw, _PIECES))
        if _REFERENCE in raw and _is_lossy(raw, 0):
            return _decode_document(raw, 0)
        try:
            document = bson.decode(raw, _OPTIONS)
        except InvalidBSON:
            # Either this is not BSON, and the slower path raises why, or PyMongo refuses what MongoDB stores.
            return _decode_document(raw, 0)
        if _MAYBE_LOSSY.search(raw) and encode(document) != raw and _is_lossy(raw, 0):
            return _decode_document(raw, 0)
        return document
    except RecursionError:
        raise BsonError("the document is nested too deeply") from None


class _Pieces:
    """Decodes the pieces of a large document."""

    def enter(self, depth: int) -> None:
        pass

    def fields(self, piece: bytes, depth: int) -> dict[str, Any]:  # noqa: ARG002
        return decode(piece, whole=True)

    def items(self, piece: bytes, depth: int) -> list[Any]:  # noqa: ARG002
        with suppress(InvalidBSON):
            found = bson.decode(piece, _OPTIONS)
            if _REFERENCE not in piece and encode(found) == piece:
                return list(found.values())
        # Positions are not unique, or a type was lost.
        framed = rawbson.document(rawbson.element(rawbson.ARRAY, b"", piece))
        items: list[Any] = decode(framed, whole=True)[""]
        return items

    def add(self, fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        fields.update(more)
        return fields

    def scope_start(self, document: bytes, start: int, end: int) -> int:  # noqa: ARG002
        return rawbson.scope_start(document, start)


_PIECES: Final = _Pieces()


def _is_lossy(raw: bytes, start: int) -> bool:
    for kind, name, value_start, _ in rawbson.elements(raw, start):
        if kind in _LOSSY_TYPES or name == b"$ref":
            return True
        if kind in (rawbson.DOCUMENT, rawbson.ARRAY) and _is_lossy(raw, value_start):
            return True
        if kind == rawbson.CODE_WITH_SCOPE and _is_lossy(raw, rawbson.scope_start(raw, value_start)):
            return True
    return False


def _decode_document(raw: bytes, start: int) -> dict[str, Any]:
    try:
        return {
            name.decode(): decode_value(raw, kind, value_start, end)
            for kind, name, value_start, end in rawbson.elements(raw, start)
        }
    except UnicodeDecodeError:
        raise BsonError(f"a field name in the document at byte {start} is not UTF-8") from None


def decode_value(raw: bytes, kind: int, start: int, end: int) -> Any:
    """A single value, as in `decode`."""
    if kind == rawbson.DOCUMENT:
        return _decode_document(raw, start)
    if kind == rawbson.BINARY and raw[start + 4] in _UUID_SUBTYPES and end - start != _UUID_VALUE_SIZE:
        return Binary(raw[start + 5 : end], raw[start + 4])  # PyMongo insists on 16 bytes, MongoDB does not
    if kind == rawbson.ARRAY:
        return [decode_value(raw, k, s, e) for k, _, s, e in rawbson.elements(raw, start)]
    if kind == rawbson.CODE_WITH_SCOPE:
        scope = rawbson.scope_start(raw, start)
        return Code(rawbson.string_value(raw, start + 4, scope), _decode_document(raw, scope))
    if kind == rawbson.SYMBOL:
        return Symbol(rawbson.string_value(raw, start, end))
    if kind == rawbson.UNDEFINED:
        return Undefined()
    if kind == rawbson.DB_POINTER:
        return DBPointer(rawbson.string_value(raw, start, end - 12), ObjectId(raw[end - 12 : end]))
    try:
        return bson.decode(rawbson.document(rawbson.element(kind, b"", raw[start:end])), _OPTIONS)[""]
    except InvalidBSON as error:
        raise BsonError(str(error)) from None


class _NeedsSlowEncoder(Exception):  # noqa: N818 - a signal inside this file, not an error
    pass


def _refuse(value: Any) -> NoReturn:
    if isinstance(value, Symbol | Undefined | DBPointer):
        raise _NeedsSlowEncoder
    raise TypeError(f"a {type(value).__name__} has no BSON form")


_ENCODE_OPTIONS: Final = _OPTIONS.with_options(type_registry=TypeRegistry(fallback_encoder=_refuse))


def encode(document: Mapping[str, Any]) -> bytes:
    """The document as BSON; the inverse of `decode`.

    >>> list(decode(encode({"a": 1, "_id": 2})))
    ['a', '_id']
    """
    try:
        if "_id" in document and next(iter(document)) != "_id":
            # PyMongo moves a top-level `_id` to the front; an embedded document keeps its order.
            return bson.encode({"": document}, codec_options=_ENCODE_OPTIONS)[6:-1]
        return bson.encode(document, codec_options=_ENCODE_OPTIONS)
    except (_NeedsSlowEncoder, SystemError):
        # PyMongo's C encoder uses 255 as an error code and fails without an error for binary subtype 255.
        return _encode_document(document)


def encode_with_ticks(document: Mapping[str, Any]) -> bytes:
    """Like `encode`, in pieces if the document has long arrays or documents; for what was computed."""
    if is_paced() and (len(document) > _MANY or _has_long(document.values(), 1)):
        parts: list[bytes] = []
        _encode_in_pieces(document.items(), parts)
        return b"".join(parts)
    return encode(document)


def _has_long(values: Iterable[Any], levels: int) -> bool:
    """Whether one of the values, or one inside of them, has many elements; of arrays the ends are tested."""
    for value in values:
        kind = value.__class__
        if kind is not list and kind is not dict:
            continue
        if len(value) > _MANY:
            return True
        if (
            levels
            and value
            and _has_long(value.values() if kind is dict else (value[0], value[-1]), levels - 1)
        ):
            return True
    return False


def _encode_in_pieces(items: Iterable[tuple[str, Any]], parts: list[bytes]) -> int:
    """Append the parts of a document, which are joined only once; returns its size."""
    start = len(parts)
    parts.append(b"")
    total = 5
    piece: dict[str, Any] = {}
    size = 0
    for name, value in items:
        kind = value.__class__
        size += 1
        if kind is list or kind is dict:
            size += len(value)
            if _has_long((value,), _LEVELS):
                head = rawbson.element(
                    rawbson.DOCUMENT if kind is dict else rawbson.ARRAY, name.encode(), b""
                )
                parts += (rawbson.body(encode(piece)), head)
                total += len(parts[-2]) + len(head)
                inner = value.items() if kind is dict else zip(map(str, count()), value, strict=False)
                total += _encode_in_pieces(inner, parts)
                piece, size = {}, 0
                continue
        piece[name] = value
        if size > _MANY:
            parts.append(rawbson.body(encode(piece)))
            total += len(parts[-1])
            piece, size = {}, 0
            tick()
    parts += (rawbson.body(encode(piece)), b"\0")
    total += len(parts[-2])
    parts[start] = rawbson.INT32_LE.pack(total)
    return total


def encode_value(value: Any) -> tuple[int, bytes]:
    """Type byte and value bytes of a value."""
    framed = encode({"": value})
    return framed[4], framed[6:-1]


def _encode_document(document: Mapping[str, Any]) -> bytes:
    return rawbson.document(*(_encode_element(name.encode(), value) for name, value in document.items()))


def _encode_element(name: bytes, value: Any) -> bytes:
    if isinstance(value, Mapping):
        return rawbson.element(rawbson.DOCUMENT, name, _encode_document(value))
    if isinstance(value, list | tuple):
        items = {str(index): item for index, item in enumerate(value)}
        return rawbson.element(rawbson.ARRAY, name, _encode_document(items))
    if isinstance(value, Code) and value.scope is not None:
        content = rawbson.framed(str(value).encode()) + _encode_document(value.scope)
        size = rawbson.INT32_LE.pack(len(content) + 4)
        return rawbson.element(rawbson.CODE_WITH_SCOPE, name, size + content)
    if isinstance(value, Binary) and value.subtype == _USER_SUBTYPE_255:
        content = rawbson.INT32_LE.pack(len(value)) + bytes((value.subtype,)) + value
        return rawbson.element(rawbson.BINARY, name, content)
    if isinstance(value, Symbol):
        return rawbson.element(rawbson.SYMBOL, name, rawbson.framed(value.text.encode()))
    if isinstance(value, Undefined):
        return rawbson.element(rawbson.UNDEFINED, name, b"")
    if isinstance(value, DBPointer):
        return rawbson.element(
            rawbson.DB_POINTER, name, rawbson.framed(value.namespace.encode()) + value.id.binary
        )
    kind, encoded = encode_value(value)
    return rawbson.element(kind, name, encoded)


__all__ = [
    "DBPointer",
    "DatetimeMS",
    "Symbol",
    "Undefined",
    "decode",
    "decode_value",
    "encode",
    "encode_value",
    "encode_with_ticks",
]
