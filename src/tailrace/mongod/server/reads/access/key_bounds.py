"""`min` and `max` of a find: a range of an index between two keys."""

from collections.abc import Mapping
from typing import Any

from tailrace.errors import CommandError
from tailrace.mongod.server.reads.access.intervals import complement, key_space
from tailrace.mongod.store.catalog import Index
from tailrace.mongod.store.indexes.index_keys import is_descending


def key_bounds(
    index: Index, min_key: Mapping[str, Any] | None, max_key: Mapping[str, Any] | None
) -> tuple[bytes, bytes | None]:
    """The start of the range, and its end, which is excluded."""
    lower = b"" if not min_key else _key(index, min_key)
    upper = None if not max_key else _key(index, max_key)
    if upper is not None and lower >= upper and min_key:
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
