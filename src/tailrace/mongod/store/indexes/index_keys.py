"""The keys that an index has for a document.

A key is the concatenation of the KeyStrings of the index's fields, inverted where the field is descending, so
that the order of the bytes is the order of the index. Most indexes are on top-level fields of the document;
their keys are made from its bytes. Paths, arrays, filters and collations take a general path.

Indexes of the kinds `text`, `2d` and `2dsphere` have no keys: no query uses them, and they are never unique.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from heapq import merge
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import decode, encode_value
from tailrace.bson.keystring import END, NO_BITS, append_value
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.indexes.collation_keys import collated
from tailrace.mongod.store.indexes.id_keys import id_key_of
from tailrace.mongod.store.indexes.index_values import IndexPaths, Values, wildcard_values
from tailrace.mongod.store.tables import fit_key, record_mark
from tailrace.pacing import pieces, with_ticks
from tailrace.query.expressions.conversion.hashed_index import hashed_index_key
from tailrace.query.match import compile_match
from tailrace.query.missing import MISSING
from tailrace.query.reshape import compile_stage

KeyMaker: TypeAlias = Callable[[bytes], list[bytes]]

_WITHOUT_KEYS: Final = frozenset({"text", "2d", "2dsphere", "2dsphere_bucket"})
_HASHED: Final = "hashed"
_WILDCARD: Final = "$**"
_ARRAY_IN_HASHED: Final = 16766
_LARGE: Final = 10_000
_SORTED_AT_ONCE: Final = 8192
INVERTED: Final = bytes(255 - byte for byte in range(256))
"""Translation table that turns the bytes of an ascending key into those of a descending one"""
_END: Final = bytes([END])
_FIXED_SIZES: Final = {kind: rawbson.value_end(b"", kind, 0) for kind in (
    rawbson.DOUBLE, rawbson.UNDEFINED, rawbson.OBJECT_ID, rawbson.BOOL, rawbson.DATE, rawbson.NULL,
    rawbson.INT32, rawbson.TIMESTAMP, rawbson.INT64, rawbson.DECIMAL128, rawbson.MAX_KEY, rawbson.MIN_KEY,
)}  # fmt: skip


def index_keys(index: Index, document: bytes) -> list[bytes]:
    """The keys of a document, sorted and without repetition; none if the index skips the document."""
    return _maker(index)(document)


def paced_index_keys(index: Index, document: bytes) -> list[bytes]:
    """`index_keys` with ticks, for documents that may have very many keys; not for jobs of the writer."""
    if len(document) < _LARGE or _has_no_keys(index):
        return index_keys(index, document)
    keys: set[bytes] = set()
    for key, _ in with_ticks(_General(index).keyed_values(decode(document))):
        keys.add(key)
    return list(with_ticks(merge(*[sorted(piece) for piece in pieces(list(keys), _SORTED_AT_ONCE)])))


def all_index_keys(index: Index, document: bytes) -> list[bytes]:
    """`index_keys` for any index, the one on `_id` included, whose key is made from a few bytes."""
    if index.is_id:
        key = id_key_of(document, index.collation)
        return [] if key is None else [key]
    return index_keys(index, document)


def unique_keys(indexes: Iterable[Index], document: bytes) -> list[tuple[Index, bytes]]:
    """The keys of a document that no other document may have."""
    return [
        (index, key)
        for index in indexes
        if not index.allows_duplicates
        for key in all_index_keys(index, document)
    ]


def stored_key(index: Index, index_key: bytes, record_key: bytes) -> bytes:
    """A key as the index stores it, without the index's prefix; a non-unique index adds the record's mark."""
    return index_key if index.unique else index_key + record_mark(record_key)


def index_values(index: Index, document: bytes) -> Iterator[tuple[bytes, Values]]:
    """The keys of a document with their values, in no order; for messages."""
    return _General(index).keyed_values(decode(document))


def is_descending(direction: Any) -> bool:
    return not isinstance(direction, str) and float(str(direction)) < 0


# Indexes are immutable, so a cached key maker never becomes stale.
@lru_cache(maxsize=4096)
def _maker(index: Index) -> KeyMaker:
    if _has_no_keys(index):
        return lambda _document: []
    general = _General(index)
    is_plain = (
        not any(isinstance(direction, str) for _, direction in index.key)
        and not any("." in path or path == _WILDCARD for path, _ in index.key)
        and not {"collation", "partialFilterExpression"} & index.spec.keys()
    )
    return _Plain(index, general) if is_plain else general


def _has_no_keys(index: Index) -> bool:
    return any(isinstance(direction, str) and direction in _WITHOUT_KEYS for _, direction in index.key)


class _Plain:
    """Keys of an index on top-level fields, made from the document's bytes; `_General` handles arrays."""

    def __init__(self, index: Index, general: "_General") -> None:
        self._general = general
        self._places = {path.encode(): place for place, (path, _) in enumerate(index.key)}
        self._descending = [is_descending(direction) for _, direction in index.key]
        self._sparse = bool(index.spec.get("sparse"))
        out = bytearray()
        append_value(out, NO_BITS, b"", rawbson.NULL, 0, 0)
        self._null = bytes(out)

    def __call__(self, document: bytes) -> list[bytes]:
        places = self._places
        found: list[tuple[int, int, int] | None] = [None] * len(places)
        left = len(places)
        position, end = 4, len(document) - 1
        # `rawbson.elements` inlined: this runs for every index of every document written.
        while position < end:
            kind = document[position]
            name_end = document.index(0, position + 1)
            start = name_end + 1
            size = _FIXED_SIZES.get(kind)
            stop = start + size if size is not None else rawbson.value_end(document, kind, start)
            place = places.get(document[position + 1 : name_end])
            if place is not None and found[place] is None:
                if kind == rawbson.ARRAY:
                    return self._general(document)
                found[place] = (kind, start, stop)
                left -= 1
                if not left:
                    break
            position = stop
        if self._sparse and left == len(places):
            return []
        out = bytearray()
        for value, descending in zip(found, self._descending, strict=True):
            begin = len(out)
            if value is None:
                out += self._null
            else:
                append_value(out, NO_BITS, document, *value)
            if descending:
                out[begin:] = out[begin:].translate(INVERTED)
        out += _END
        return [fit_key(bytes(out))]


class _General:
    """Keys of any index, from the decoded document."""

    def __init__(self, index: Index) -> None:
        self._directions = [_normalised(direction) for _, direction in index.key]
        self._wildcard = next((n for n, (path, _) in enumerate(index.key) if path.endswith(_WILDCARD)), None)
        paths = [path for place, (path, _) in enumerate(index.key) if place != self._wildcard]
        self._paths = IndexPaths(paths)
        self._is_hashed = _HASHED in self._directions
        self._sparse = bool(index.spec.get("sparse"))
        self._collation = index.collation
        partial = index.spec.get("partialFilterExpression")
        self._lists = None if partial is None else compile_match(partial, collation=self._collation)
        if self._wildcard is not None:
            path = index.key[self._wildcard][0].removesuffix(_WILDCARD).removesuffix(".")
            wanted = {path: 1} if path else index.spec.get("wildcardProjection", {})
            self._below = compile_stage("$project", {"_id": 0, **wanted})

    def __call__(self, document: bytes) -> list[bytes]:
        return sorted({key for key, _ in self.keyed_values(decode(document))})

    def keyed_values(self, document: dict[str, Any]) -> Iterator[tuple[bytes, Values]]:
        """The keys with the values they are made of."""
        if self._lists is not None and not self._lists(document):
            return
        if self._wildcard is not None:
            yield from self._wildcard_keys(document, self._wildcard)
            return
        for values in self._combinations(document):
            if not (self._sparse and all(value is MISSING for value in values)):
                yield self._key(zip(values, self._directions, strict=True)), values

    def _combinations(self, document: dict[str, Any]) -> Iterable[Values]:
        if self._is_hashed and self._paths.meet_array(document):
            raise CommandError(_ARRAY_IN_HASHED, "hashed indexes do not currently support array values")
        return self._paths.values(document)

    def _key(self, values: Iterable[tuple[Any, Any]]) -> bytes:
        out = bytearray()
        for value, direction in values:
            if value is MISSING:
                value = None
            if direction == _HASHED:
                value = hashed_index_key(value)
            kind, raw = encode_value(value)
            if self._collation is not None:
                kind, raw = collated(self._collation, raw, kind, 0, len(raw))
            begin = len(out)
            append_value(out, NO_BITS, raw, kind, 0, len(raw))
            if direction == -1:
                out[begin:] = out[begin:].translate(INVERTED)
        out += _END
        return fit_key(bytes(out))

    def _wildcard_keys(self, document: dict[str, Any], place: int) -> Iterator[tuple[bytes, Values]]:
        """For each value below the path a key of the value's path and the value."""
        listed = list(wildcard_values(self._below(document) or {}))
        direction = self._directions[place]
        others = [other for number, other in enumerate(self._directions) if number != place]
        for values in self._paths.values(document) if others else [[]]:
            plain = list(zip(values, others, strict=True))
            for path, value in listed:
                fields = [*plain[:place], (path, 1), (value, direction), *plain[place:]]
                yield self._key(fields), [*values, path, value]


def _normalised(direction: Any) -> Any:
    return direction if isinstance(direction, str) else -1 if is_descending(direction) else 1
