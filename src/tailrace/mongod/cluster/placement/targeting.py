"""Which shards a query can find something on, from what it says about the shard key.

Every condition that all matching documents meet narrows the ranges of keys they can have; the owners of these
ranges are asked. What says nothing about the key is asked of all. Strings under a collation may be equal
without being the same, so they narrow nothing there; a hash tells only what is equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import ShardedCollection
from tailrace.mongod.server.reads.access.intervals import (
    Interval,
    KeySpace,
    comparisons_of,
    field_intervals,
    has_point,
)
from tailrace.mongod.store.tables import after_prefix
from tailrace.query.collation import Collation
from tailrace.query.expressions.conversion.hashed_index import hashed_index_key
from tailrace.query.match.conditions import Condition

Range: TypeAlias = tuple[bytes, bytes | None]
"""The least key, and the one behind the last; None has no end"""

_MOST_RANGES: Final = 10_000
"""Beyond that a query with long lists for several fields is narrowed by the first ones only"""
_PLAIN: Final = KeySpace()


def target(
    collection: ShardedCollection, query: Mapping[str, Any], collation: Collation | None = None
) -> frozenset[str] | None:
    """The shards that can hold matches; None if the query does not narrow them."""
    chunks = collection.chunks
    found: frozenset[str] | None = None
    ranges = key_ranges(collection.key, query, collation)
    if ranges is not None:
        found = frozenset(owner for lower, upper in ranges for owner in chunks.owners_of(lower, upper))
    for branches in _alternatives(query):
        parts = [target(collection, branch, collation) for branch in branches]
        known = [part for part in parts if part is not None]
        if len(known) == len(parts):
            either = frozenset().union(*known)
            found = either if found is None else found & either
    return found


def targets(
    collection: ShardedCollection, query: Mapping[str, Any], collation: Collation | None = None
) -> tuple[str, ...]:
    """The same as names in order: all owners if the query does not narrow them."""
    found = target(collection, query, collation)
    return collection.shards if found is None else tuple(sorted(found))


def exact_key(
    key: ShardKey, query: Mapping[str, Any], collation: Collation | None = None
) -> dict[str, Any] | None:
    """The values of all fields of the key if the query asks for one of each; None if it does not."""
    conditions = comparisons_of(query)
    keys = KeySpace(has_strings=collation is None)
    values: dict[str, Any] = {}
    for path in key.paths:
        equal = [value for operator, value in _conditions_on(path, conditions) if operator == "$eq"]
        if not equal or not has_point(equal[0], keys):
            return None
        values[path] = equal[0]
    return values


def key_ranges(
    key: ShardKey, query: Mapping[str, Any], collation: Collation | None = None
) -> list[Range] | None:
    """The ranges in which the keys of all matching documents lie; None if that is everywhere."""
    conditions = comparisons_of(query)
    keys = KeySpace(has_strings=collation is None)
    prefixes = [b""]
    for path in key.paths:
        found = _conditions_on(path, conditions)
        if path == key.hashed_path:
            points = _hashes(found, keys)
        else:
            bound = field_intervals(found, keys, may_have_arrays=False)
            intervals = () if bound is None else tuple(map(_without_arrays, bound.intervals))
            points = None
            if bound is not None and all(interval.is_point for interval in intervals):
                points = [interval.lower for interval in intervals]
            elif bound is not None and len(prefixes) * len(intervals) <= _MOST_RANGES:
                return [_range(prefix, interval) for prefix in prefixes for interval in intervals]
        if points is None or len(prefixes) * len(points) > _MOST_RANGES:
            break
        prefixes = [prefix + point for prefix in prefixes for point in points]
    return None if prefixes == [b""] else [(prefix, after_prefix(prefix) or None) for prefix in prefixes]


def _range(prefix: bytes, interval: Interval) -> Range:
    lower, upper = prefix + interval.lower, prefix + interval.upper
    return (
        lower if interval.has_lower else after_prefix(lower),
        (after_prefix(upper) or None) if interval.has_upper else upper,
    )


def _without_arrays(interval: Interval) -> Interval:
    """Where no document has an array, nothing but null is found under null."""
    is_null = interval.least is None and interval.greatest is None
    return interval._replace(lower=interval.upper) if is_null else interval


def _hashes(conditions: Sequence[Condition], keys: KeySpace) -> list[bytes] | None:
    """The hashes of the values that a field may have; None if it may have any."""
    for operator, value in conditions:
        values = [value] if operator == "$eq" else value if operator == "$in" else None
        if isinstance(values, list) and all(has_point(item, keys) for item in values):
            return sorted({_PLAIN.key_of(hashed_index_key(item)) for item in values})
    return None


def _conditions_on(path: str, conditions: Mapping[str, Sequence[Condition]]) -> list[Condition]:
    """The conditions on a path; a whole document that a field above it has to be equal to is one, too."""
    found = list(conditions.get(path, ()))
    above, _, rest = path.rpartition(".")
    below = [rest]
    while above:
        for operator, value in conditions.get(above, ()):
            if operator == "$eq" and isinstance(value, Mapping):
                found.append(("$eq", _value_at(value, below)))
        above, _, part = above.rpartition(".")
        below.insert(0, part)
    return found


def _value_at(value: Any, parts: Sequence[str]) -> Any:
    for part in parts:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _alternatives(query: Mapping[str, Any]) -> Iterator[list[Mapping[str, Any]]]:
    """The branches of each `$or` that all matching documents meet."""
    for name, value in query.items():
        if not isinstance(value, list) or not all(isinstance(part, Mapping) for part in value):
            continue
        if name == "$or":
            yield value
        elif name == "$and":
            for part in value:
                yield from _alternatives(part)
