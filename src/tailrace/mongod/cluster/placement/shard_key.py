"""The shard key of a collection: compute from a document which chunk it belongs to.

The *key* of a document is the concatenation of the KeyStrings of the key's fields, in the order of the
pattern; a hashed field is replaced by its hash. Chunks are ordered by these bytes. A missing field counts as
null; an array is not allowed.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from bson import Decimal128, MaxKey, MinKey

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode_value, encode_value
from tailrace.bson.keystring import NO_BITS, append_value
from tailrace.bson.keystring.numbers import append_int
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.conversion.hashed_index import hashed_bson_key, hashed_index_key

HASHED: Final = "hashed"
_MAX_FIELDS: Final = 32
_HASH_OF_NULL: Final = hashed_index_key(None)
_FoundValue = tuple[int, int, int] | None
"""(type byte, start, end) of a value in its document; None if it is missing"""


class ShardKey:
    """One shard key.

    >>> from tailrace.bson.documents import encode
    >>> key = ShardKey({"customer.id": 1, "at": 1})
    >>> key.key_of(encode({"customer": {"id": 7}, "total": 3})) == key.bound({"customer.id": 7, "at": None})
    True
    """

    def __init__(self, pattern: Mapping[str, Any]) -> None:
        check_pattern(pattern)
        self.pattern: Final = dict(pattern)
        """As the client wrote it"""
        self.paths: Final = tuple(pattern)
        self.hashed_path: Final = next((path for path, kind in pattern.items() if kind == HASHED), None)
        self._parts: Final = tuple(
            (path, tuple(part.encode() for part in path.split(".")), path == self.hashed_path)
            for path in pattern
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShardKey) and self._normal == other._normal

    def __hash__(self) -> int:
        return hash(self._normal)

    def __repr__(self) -> str:
        return f"ShardKey({self.pattern!r})"

    @cached_property
    def _normal(self) -> tuple[tuple[str, bool], ...]:
        return tuple((path, path == self.hashed_path) for path in self.paths)

    @property
    def is_hashed(self) -> bool:
        return self.hashed_path is not None

    @property
    def least(self) -> dict[str, Any]:
        """The lower end of the first chunk."""
        return dict.fromkeys(self.paths, MinKey())

    @property
    def greatest(self) -> dict[str, Any]:
        """The upper end of the last chunk."""
        return dict.fromkeys(self.paths, MaxKey())

    def is_prefix_of(self, pattern: Mapping[str, Any]) -> bool:
        """Whether another key or an index begins with the fields of this key.

        >>> key = ShardKey({"a": 1})
        >>> key.is_prefix_of({"a": 1, "b": -1}), key.is_prefix_of({"a": "hashed"})
        (True, False)
        """
        begin = list(pattern.items())[: len(self.paths)]
        if [path for path, _ in begin] != list(self.paths):
            return False
        return all(kind == HASHED if path == self.hashed_path else _is_one(kind) for path, kind in begin)

    # -- documents ----------------------------------------------------------------------------------------

    def key_of(self, document: bytes) -> bytes:
        """The key of a document; raises ShardKeyNotFound (61) if a field is, or is inside of, an array."""
        out = bytearray()
        for path, parts, is_hashed in self._parts:
            found = _follow(document, parts, path)
            if is_hashed:
                append_int(out, _HASH_OF_NULL if found is None else hashed_bson_key(document, *found))
            elif found is None:
                append_value(out, NO_BITS, b"", rawbson.NULL, 0, 0)
            else:
                append_value(out, NO_BITS, document, *found)
        return bytes(out)

    def values_of(self, document: bytes) -> dict[str, Any]:
        """The values of the key's fields, unhashed, by path; missing ones are left out."""
        found = ((path, _follow(document, parts, path)) for path, parts, _ in self._parts)
        return {path: decode_value(document, *value) for path, value in found if value is not None}

    def hashed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A bound from a document's values: missing values are null, the hashed field's value is replaced."""
        return {
            path: hashed_index_key(values.get(path)) if path == self.hashed_path else values.get(path)
            for path in self.paths
        }

    # -- bounds -------------------------------------------------------------------------------------------

    def bound(self, values: Mapping[str, Any]) -> bytes:
        """The KeyString of a chunk's end; the value of a hashed field is a hash.

        Missing fields are MinKey: `{a: 5}` is the first key with 5.
        """
        self.check_bound(values)
        out = bytearray()
        for path in self.paths:
            _append(out, values[path] if path in values else MinKey())
        return bytes(out)

    def full_bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A chunk's end with all fields of the key, as chunks are stored."""
        self.check_bound(values)
        return {path: values[path] if path in values else MinKey() for path in self.paths}

    def check_bound(self, values: Mapping[str, Any], *, whole: bool = False) -> None:
        """Raise BadValue (2) if the fields are not the first ones of the key, in order; ``whole``: all."""
        given = list(values)
        if not given or tuple(given) != self.paths[: len(given)] or (whole and len(given) < len(self.paths)):
            raise CommandError(
                ErrorCode.BadValue,
                f"the bound {shell(dict(values))} does not have the fields of the shard key "
                f"{shell(self.pattern)}",
            )


def check_pattern(pattern: Mapping[str, Any]) -> None:
    """Raise BadValue (2) if a pattern cannot be a shard key."""
    if not pattern:
        raise _bad_pattern(pattern, "it has no fields")
    if len(pattern) > _MAX_FIELDS:
        raise _bad_pattern(pattern, f"it has more than {_MAX_FIELDS} fields")
    for path, kind in pattern.items():
        if kind != HASHED and not _is_one(kind):
            raise _bad_pattern(pattern, f"the field '{path}' must be 1 or '{HASHED}'")
        if any(not part or part.startswith("$") for part in path.split(".")):
            raise _bad_pattern(pattern, f"'{path}' is not a field path")
    if sum(kind == HASHED for kind in pattern.values()) > 1:
        raise _bad_pattern(pattern, "more than one field is hashed")
    nested = next(((a, b) for a in pattern for b in pattern if b.startswith(a + ".")), None)
    if nested is not None:
        raise _bad_pattern(pattern, f"the field '{nested[0]}' contains '{nested[1]}'")


def _is_one(kind: Any) -> bool:
    if isinstance(kind, Decimal128):
        number = kind.to_decimal()
        return number.is_finite() and number == 1
    return not isinstance(kind, bool) and isinstance(kind, int | float) and kind == 1


def _bad_pattern(pattern: Mapping[str, Any], reason: str) -> CommandError:
    return CommandError(ErrorCode.BadValue, f"{shell(dict(pattern))} cannot be a shard key: {reason}")


def _append(out: bytearray, value: Any) -> None:
    kind, raw = encode_value(value)
    append_value(out, NO_BITS, raw, kind, 0, len(raw))


def _follow(document: bytes, parts: tuple[bytes, ...], path: str) -> _FoundValue:
    """The value at the end of a path; None if there is none."""
    start = 0
    left = len(parts)
    for part in parts:
        found = _find(document, start, part)
        if found is None:
            return None
        kind, start, end = found
        left -= 1
        if kind == rawbson.ARRAY:
            raise CommandError(
                ErrorCode.ShardKeyNotFound,
                f"the shard key field '{path}' of a document is an array, or inside of one; "
                "shard keys cannot have arrays",
            )
        if not left:
            return kind, start, end
        if kind != rawbson.DOCUMENT:
            return None
    return None


def _find(document: bytes, start: int, name: bytes) -> _FoundValue:
    """The first value of that name in the document at ``start``."""
    # Like `rawbson.elements`, inlined: this runs for every document that is written or may be an orphan.
    position = start + 4
    last = start + rawbson.INT32_LE.unpack_from(document, start)[0] - 1
    while position < last:
        name_end = document.index(0, position + 1)
        kind = document[position]
        end = rawbson.value_end(document, kind, name_end + 1)
        if document[position + 1 : name_end] == name:
            return kind, name_end + 1, end
        position = end
    return None
