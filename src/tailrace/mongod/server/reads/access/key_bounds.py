"""`min` and `max` of a find: a range of an index, or of a clustered collection, between two keys."""

from collections.abc import Mapping
from typing import Any, Final

from bson import MaxKey, MinKey

from tailrace.errors import CommandError
from tailrace.mongod.server.reads.access.intervals import KeySpace, complement, key_space
from tailrace.mongod.store.catalog import Collection, Index, id_index_spec
from tailrace.mongod.store.indexes.index_keys import is_descending
from tailrace.query.collation import Collation

Bound = Mapping[str, Any] | None
_NOT_COMPATIBLE: Final = "The index chosen is not compatible with min/max"


def key_bounds(
    index: Index, min_key: Bound, max_key: Bound, collation: Collation | None
) -> tuple[bytes, bytes | None]:
    """The start of the range, and its end, which is excluded; ``collation`` is that of the query.

    Where one of them is not given, the range begins with the least key, or ends before the greatest one.
    """
    if not min_key and not max_key:
        return b"", None
    return _range(index, min_key, max_key, collation, _NOT_COMPATIBLE, incompatible=51174, reverse=51175)


def record_key_bounds(
    collection: Collection, min_key: Bound, max_key: Bound, collation: Collation | None
) -> tuple[bytes, bytes]:
    """The same range of the records of a clustered collection, which are in the order of their `_id`s.

    The key of a record is longer than that of its value alone, so it is never equal to one of the ends.
    """
    by_id = Index(0, id_index_spec(collection.options))
    message = "The clustered index is not compatible with the values provided for min/max"
    return _range(by_id, min_key, max_key, collation, message, incompatible=6137400, reverse=6137401)


def _range(
    index: Index,
    min_key: Bound,
    max_key: Bound,
    collation: Collation | None,
    message: str,
    *,
    incompatible: int,
    reverse: int,
) -> tuple[bytes, bytes]:
    keys = key_space(index, collation)
    ends = {path: (MinKey(), MaxKey())[:: -1 if is_descending(way) else 1] for path, way in index.key}
    bounds = (
        min_key or {path: first for path, (first, _) in ends.items()},
        max_key or {path: last for path, (_, last) in ends.items()},
    )
    if not all(_fits(index, bound, keys) for bound in bounds):
        raise CommandError(incompatible, message)
    lower, upper = (_key(index, bound, keys) for bound in bounds)
    if lower >= upper:
        raise CommandError(
            reverse, "The value provided for min() does not come before the value provided for max()"
        )
    return lower, upper


def _fits(index: Index, bound: Mapping[str, Any], keys: KeySpace) -> bool:
    is_plain = not any(isinstance(direction, str) for _, direction in index.key)
    if not is_plain or list(bound) != [path for path, _ in index.key]:
        return False
    return all(
        keys.holds(value) and (keys.has_strings or not isinstance(value, list)) for value in bound.values()
    )


def _key(index: Index, bound: Mapping[str, Any], keys: KeySpace) -> bytes:
    parts = [(keys.key_of(bound[path]), direction) for path, direction in index.key]
    return b"".join(complement(part) if is_descending(direction) else part for part, direction in parts)
