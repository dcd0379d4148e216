"""Find the shards that can have documents matching a query, from its conditions on the shard key.

Every condition that all matching documents must meet restricts the ranges of their keys, and only the owners
of these ranges are asked. A query without a condition on the key goes to all shards. Under a collation
different strings may be equal, so conditions on strings restrict nothing; on a hashed field only equality
restricts.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from tailrace.mongod.cluster.placement.shard_key import ShardKey
from tailrace.mongod.cluster.placement.state import TrackedCollection
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
"""The first key, and the one after the last; None means no end"""

_MOST_RANGES: Final = 10_000
"""Limit for queries with long lists for several fields: only the first fields are used beyond it"""
_PLAIN: Final = KeySpace()


def target(
    collection: TrackedCollection, query: Mapping[str, Any], collation: Collation | None = None
) -> frozenset[str] | None:
    """The shards that can have matches; None if the query does not restrict them."""
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
    collection: TrackedCollection, query: Mapping[str, Any], collation: Collation | None = None
) -> tuple[str, ...]:
    """Like `target`, as sorted names; all owners if the query does not restrict them."""
    found = target(collection, query, collation)
    return collection.shards if found is None else tuple(sorted(found))


def exact_key(
    key: ShardKey, query: Mapping[str, Any], collation: Collation | None = None
) -> dict[str, Any] | None:
    """The values of all fields of the key if the query requires equality for each; otherwise None."""
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
    """The ranges of the keys of all matching documents; None if they can have any key."""
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
    """Without arrays, the interval of null contains null only."""
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
    """The conditions on a path, including equality of a whole document that contains it."""
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
    """The branches of each `$or` that all matching documents must meet."""
    for name, value in query.items():
        if not isinstance(value, list) or not all(isinstance(part, Mapping) for part in value):
            continue
        if name == "$or":
            yield value
        elif name == "$and":
            for part in value:
                yield from _alternatives(part)
