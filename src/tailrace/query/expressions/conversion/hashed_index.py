"""`$toHashedIndexKey`: the 64-bit key that a hashed index stores for a value.

It is the MD5 of a seed of zero, the rank of the value's type in BSON order, and the value's BSON bytes.
Numbers are truncated to an integer, so that equal numbers of all types have the same hash.
"""

import hashlib
from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64, ObjectId

from tailrace.bson import raw
from tailrace.bson.compare import type_bracket
from tailrace.bson.documents import decode_value, encode_value
from tailrace.query.expressions.arguments import unary
from tailrace.query.expressions.numbers.number_types import real
from tailrace.query.expressions.operands import INT64_MAX, INT64_MIN, is_number
from tailrace.query.expressions.scope import OperatorParser
from tailrace.query.missing import MISSING

_SEED: Final = bytes(4)
_END: Final = bytes(4)
_HEADS: Final[dict[int, bytes]] = {
    kind: raw.INT32_LE.pack(type_bracket(value))
    for kind, value in (
        (raw.INT64, Int64(0)),
        (raw.STRING, ""),
        (raw.OBJECT_ID, ObjectId(bytes(12))),
        (raw.DATE, DatetimeMS(0)),
    )
}
"""By BSON type, the bytes before a value that is hashed as stored"""


def hashed_index_key(value: Any, *, seed: int = 0) -> Int64:
    """The key of a value; indexes have no seed.

    >>> hashed_index_key("string to hash"), hashed_index_key(1) == hashed_index_key(1.9)
    (763543691661428748, True)
    """
    content = _hashed_bytes(None if value is MISSING else value)
    return Int64(_hash(content, _SEED if not seed else raw.INT32_LE.pack(seed)))


def hashed_bson_key(document: bytes, kind: int, start: int, end: int) -> int:
    """The key of a value inside BSON, without decoding the common types.

    >>> document = raw.document(raw.element(raw.INT32, b"a", bytes([1, 0, 0, 0])))
    >>> hashed_bson_key(document, raw.INT32, 7, 11) == hashed_index_key(1)
    True
    """
    head = _HEADS.get(kind)
    if head is not None:
        return _hash(head + document[start:end])
    if kind == raw.INT32:
        number: int = raw.INT32_LE.unpack_from(document, start)[0]
        return _hash(_HEADS[raw.INT64] + raw.INT64_LE.pack(number))
    return hashed_index_key(decode_value(document, kind, start, end))


def _hash(content: bytes, seed: bytes = _SEED) -> int:
    digest = hashlib.md5(seed + content, usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


def _hashed_bytes(value: Any, name: bytes = b"") -> bytes:
    head = raw.INT32_LE.pack(type_bracket(value)) + name
    if is_number(value):
        return head + _integer(value).to_bytes(8, "little", signed=True)
    if isinstance(value, dict):
        return (
            head + b"".join(_hashed_bytes(item, key.encode() + b"\0") for key, item in value.items()) + _END
        )
    if isinstance(value, list):
        items = (_hashed_bytes(item, str(index).encode() + b"\0") for index, item in enumerate(value))
        return head + b"".join(items) + _END
    return head + encode_value(value)[1]


def _integer(value: int | float | Decimal128) -> int:
    number = real(value)
    if number != number:
        return 0
    return int(min(max(number, INT64_MIN), INT64_MAX))


OPERATORS: Final[dict[str, OperatorParser]] = {"$toHashedIndexKey": unary(hashed_index_key)}
