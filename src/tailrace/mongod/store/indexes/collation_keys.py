"""Strings under a collation as bytes: equal strings have equal bytes, and the order is the same.

An index with a collation stores these bytes in place of strings, also inside documents and arrays.
"""

from typing import TYPE_CHECKING, Any

from tailrace.bson import raw as rawbson
from tailrace.errors import UsageError
from tailrace.query.collation import VERSION, Collation

if TYPE_CHECKING:
    from tailrace.mongod.store.catalog import Catalog

_ITEM = b"\x01"
_LEVEL_END = b"\x00"


def collated(collation: Collation, raw: bytes, kind: int, start: int, end: int) -> tuple[int, bytes]:
    """A BSON value with its strings replaced by collation keys: type byte and value bytes."""
    if kind in (rawbson.STRING, rawbson.SYMBOL):
        text = collation_key(collation, rawbson.string_value(raw, start, end))
        return rawbson.STRING, rawbson.framed(text)
    if kind in (rawbson.DOCUMENT, rawbson.ARRAY):
        parts = []
        for item_kind, name, item_start, item_end in rawbson.elements(raw, start):
            new_kind, value = collated(collation, raw, item_kind, item_start, item_end)
            parts.append(rawbson.element(new_kind, name, value))
        return kind, rawbson.document(*parts)
    return kind, raw[start:end]


def collation_key(collation: Collation, text: str) -> bytes:
    """The bytes of a string under a collation.

    >>> collation = Collation.parse({"locale": "en", "strength": 2})
    >>> collation_key(collation, "Ab") == collation_key(collation, "aB") < collation_key(collation, "abc")
    True
    """
    key = collation.string_key(text)
    return key if isinstance(key, bytes) else b"".join(_level(level) for level in key)


def check_collation_versions(catalog: "Catalog") -> None:
    """Raise `UsageError` if the keys of an index were made by another version than the one in use."""
    for collection in catalog.collections():
        for index in collection.indexes:
            version = index.spec.get("collation", {}).get("version", VERSION)
            if version != VERSION:
                raise UsageError(
                    f"the index {index.name} of {collection.ns} has a collation of version {version}, this "
                    f"installation has {VERSION}; install or remove tailrace[icu] as it was when the "
                    "directory was written, or use another directory"
                )


def _level(level: Any) -> bytes:
    # A level that is a prefix of another one sorts first, because its end is less than any further item.
    if isinstance(level, str):
        return b"".join(_ITEM + _number(ord(char)) for char in level) + _LEVEL_END
    return b"".join(_ITEM + _weight(item) for item in level) + _LEVEL_END


def _weight(item: Any) -> bytes:
    if isinstance(item, tuple):
        return b"".join(_number(int(part)) for part in item)
    return _number(int(item))


def _number(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    # Numbers may have any size; a size byte of 255 means that the size follows.
    head = bytes([size]) if size < 0xFF else b"\xff" + size.to_bytes(4, "big")
    return head + value.to_bytes(size, "big")
