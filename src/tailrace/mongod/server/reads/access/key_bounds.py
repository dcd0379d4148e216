"""`min` and `max` of a find: a range of an index between two keys."""

from collections.abc import Mapping
from typing import Any

from bson import MaxKey, MinKey

from tailrace.errors import CommandError
from tailrace.mongod.server.reads.access.intervals import complement, key_space
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.indexes.index_keys import is_descending


def key_bounds(
    index: Index, min_key: Mapping[str, Any] | None, max_key: Mapping[str, Any] | None
) -> tuple[bytes, bytes | None]:
    """The start of the range, and its end, which is excluded.

    Where one of them is not given, the range begins with the least key, or ends before the greatest one.
    """
    if not min_key and not max_key:
        return b"", None
    ends = {path: (MinKey(), MaxKey())[:: -1 if is_descending(way) else 1] for path, way in index.key}
    lower = _key(index, min_key or {path: first for path, (first, _) in ends.items()})
    upper = _key(index, max_key or {path: last for path, (_, last) in ends.items()})
    if lower >= upper:
        raise CommandError(
            51175, "The value provided for min() does not come before the value provided for max()"
        )
    return lower, upper


def _key(index: Index, bound: Mapping[str, Any]) -> bytes:
    is_plain = not any(isinstance(direction, str) for _, direction in index.key)
    if not is_plain or list(bound) != [path for path, _ in index.key]:
        raise CommandError(51174, "The index chosen is not compatible with min/max")
    keys = key_space(index, None)
    parts = [(keys.key_of(bound[path]), direction) for path, direction in index.key]
    return b"".join(complement(part) if is_descending(direction) else part for part, direction in parts)
