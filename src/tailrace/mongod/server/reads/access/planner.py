"""Choose the access path of a query.

There are no trial runs and no cache: a look-up by `_id` is best, then the index whose first fields have the
tightest bounds, then one that makes a sort unnecessary, then one with any bounds (`wide_conditions`), then a
scan. The choice affects speed, and the order of results without a sort; conditions that an index cannot
decide are checked on the documents.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tailrace.bson.compare import compare, type_bracket
from tailrace.bson.documents import encode_value
from tailrace.bson.repeated import repeated_field
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.reads.access.access_paths import (
    AccessPath,
    BucketScan,
    CappedScan,
    CollectionScan,
    IdLookup,
    IndexScan,
    NoAccess,
)
from tailrace.mongod.server.reads.access.intervals import (
    EVERYTHING,
    FieldIntervals,
    KeySpace,
    comparisons_of,
    field_intervals,
    has_point,
    id_keys,
    key_space,
)
from tailrace.mongod.server.reads.access.key_bounds import key_bounds, record_key_bounds
from tailrace.mongod.server.reads.access.record_bounds import record_bounds
from tailrace.mongod.server.reads.access.wide_conditions import one_of, widely_bounded_paths
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.id_keys import id_key
from tailrace.mongod.store.indexes.index_keys import is_descending
from tailrace.mongod.store.reader import Reader
from tailrace.query.collation import Collation
from tailrace.query.expressions.numbers.number_types import real
from tailrace.query.expressions.operands import is_number
from tailrace.query.match import compile_match
from tailrace.query.match.conditions import Condition
from tailrace.query.match.scope import is_operator_document
from tailrace.query.sorting import Ordering, whole_direction

NATURAL: Final = "$natural"
_RANGES: Final = frozenset({"$lt", "$lte", "$gt", "$gte"})
_MOST_RANGES: Final = 1000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an access path has to return."""

    query: Mapping[str, Any]
    sort: Mapping[str, Any] = field(default_factory=dict)
    ordering: Ordering | None = None
    """The compiled ``sort``; None without one, and for `$natural`."""
    hint: Any = None
    """The name or the key pattern of an index, or `$natural`."""
    collation: Collation | None = None
    min_key: Mapping[str, Any] | None = None
    max_key: Mapping[str, Any] | None = None


def choose_read(
    reader: Reader, collection: Collection, wanted: Wanted, *, raw_data: bool = False
) -> AccessPath:
    """The best path to the documents of a collection.

    Those of a time series are measurements, or with ``raw_data`` the buckets that contain them.
    """
    if not collection.is_timeseries or raw_data:
        return choose_access(reader, collection, wanted)
    return BucketScan(collection, reverse=_natural_direction(wanted) == -1)


def choose_access(reader: Reader, collection: Collection, wanted: Wanted) -> AccessPath:
    """The best path to the stored documents of a query."""
    conditions = comparisons_of(wanted.query)
    for path, condition in one_of(wanted.query):
        conditions.setdefault(path, []).append(condition)
    direction = _natural_direction(wanted)
    index = None if direction is not None else hinted_index(collection, wanted.hint)
    if index is not None:
        return _hinted_scan(reader, collection, index, wanted, conditions)
    if wanted.min_key or wanted.max_key:
        if direction is not None and wanted.hint is not None:
            raise CommandError(ErrorCode.NoQueryExecutionPlans, "min() and max() need an index, not $natural")
        if collection.is_clustered and wanted.hint is not None:
            return _clustered_between(collection, wanted)
        raise CommandError(51173, "When using min()/max() a hint of which index to use must be provided")
    scan = _scan(collection, wanted, conditions, direction)
    if direction is not None or isinstance(scan, NoAccess):
        return scan
    lookup = _id_lookup(collection, wanted, conditions)
    if lookup is not None:
        return lookup
    if isinstance(scan, CollectionScan) and scan.is_bounded:
        return scan
    candidates = [
        candidate
        for index in collection.indexes
        if (candidate := _Candidate.of(reader, index, wanted, conditions)) is not None
        and (candidate.bounds or (candidate.serves_sort and not scan.is_ordered))
    ]
    best = max(candidates, key=lambda candidate: candidate.score, default=None)
    if best is None:
        best = _widely_bounded(reader, collection, wanted, conditions)
    return scan if best is None else best.scan(collection, wanted)


def _widely_bounded(
    reader: Reader, collection: Collection, wanted: Wanted, conditions: Mapping[str, list[Condition]]
) -> "_Candidate | None":
    """An index without useful bounds that a mongod would read nevertheless, in its order."""
    for index in collection.indexes:
        is_multikey = not index.is_id and reader.is_multikey(index)
        paths = widely_bounded_paths(wanted.query, may_have_arrays=is_multikey)
        if next(iter(index.key))[0] in paths and not index.spec.get("sparse"):
            candidate = _Candidate.of(reader, index, wanted, conditions)
            if candidate is not None and candidate.keys.has_strings:
                return candidate
    return None


def hinted_index(collection: Collection, hint: Any) -> Index | None:
    """The index that a hint names or describes; None without a hint, and for a clustered key."""
    if hint is None:
        return None
    for index in collection.indexes:
        if not index.spec.get("hidden") and (index.name == hint or _describes(hint, index)):
            return index
    if collection.is_clustered:
        spec = collection.options["clusteredIndex"]
        name = spec.get("name", "_id_") if isinstance(spec, Mapping) else "_id_"
        if hint in (name, {"_id": 1}):
            return None
    reason = (
        f"error processing query: ns={collection.ns}: planner returned error :: caused by :: "
        "hint provided does not correspond to an existing index"
    )
    raise CommandError(ErrorCode.BadValue, reason)


def _describes(hint: Any, index: Index) -> bool:
    """Whether a hint is the key pattern of an index; numbers of all types are equal, booleans are none."""
    key = list(index.key)
    if not isinstance(hint, Mapping) or len(hint) != len(key) or repeated_field(hint) is not None:
        return False
    return all(
        name == path and compare(given, direction) == 0
        for (name, given), (path, direction) in zip(hint.items(), key, strict=True)
    )


def check_hint(hint: Any) -> None:
    """Refuse an invalid hint, even if the collection does not exist."""
    if hint is not None and not (is_string(hint) or isinstance(hint, Mapping)):
        raise CommandError(ErrorCode.FailedToParse, "Hint must be a string or an object")
    if isinstance(hint, Mapping) and NATURAL in hint and (len(hint) > 1 or not is_number(hint[NATURAL])):
        raise CommandError(ErrorCode.BadValue, "$natural hint must be a number, and stand alone")


def _natural_direction(wanted: Wanted) -> int | None:
    for spec in (wanted.sort, wanted.hint):
        if isinstance(spec, Mapping) and NATURAL in spec:
            return -1 if real(spec[NATURAL]) < 0 else 1
    return None


def _scan(
    collection: Collection, wanted: Wanted, conditions: Mapping[str, list[Condition]], direction: int | None
) -> AccessPath:
    """A scan in natural order, restricted to the part that can match if record keys decide that."""
    bounds = record_bounds(collection, conditions, id_keys(collection, wanted.collation))
    reverse = direction is not None and direction < 0
    is_ordered = False
    if bounds is not None:
        if bounds.is_empty:
            return NoAccess(collection)
        first = next(iter(wanted.sort), None)
        if first == bounds.path and direction is None and wanted.collation == collection.collation:
            is_ordered = len(wanted.sort) == 1
            reverse = is_ordered and whole_direction(wanted.sort[first]) < 0
    kind = CappedScan if collection.is_capped or collection.table == "oplog" else CollectionScan
    if bounds is None:
        return kind(collection, reverse=reverse)
    after, stop = (bounds.below, bounds.lowest) if reverse else (bounds.after, bounds.highest)
    scan = kind(collection, reverse=reverse, after=after, stop=stop, bounds=bounds.shown)
    scan.is_ordered = is_ordered
    scan.is_exact = bounds.is_exact and _is_all(wanted.query, bounds.path, bounds.covered)
    return scan


def _is_all(query: Mapping[str, Any], path: str, covered: int) -> bool:
    """Whether a filter consists of that many conditions on one path."""
    if list(query) != [path]:
        return False
    value = query[path]
    return covered == (len(value) if is_operator_document(value) else 1)


def _id_lookup(
    collection: Collection, wanted: Wanted, conditions: Mapping[str, list[Condition]]
) -> IdLookup | None:
    if collection.id_index is None and not collection.is_clustered:
        return None
    keys = id_keys(collection, wanted.collation)
    for operator, value in conditions.get("_id", ()):
        if operator == "$eq" and has_point(value, keys):
            key = id_key(*encode_value(value), collection.collation)
            return IdLookup(collection, key, is_exact=_is_all(wanted.query, "_id", 1))
    return None


def _hinted_scan(
    reader: Reader,
    collection: Collection,
    index: Index,
    wanted: Wanted,
    conditions: Mapping[str, list[Condition]],
) -> AccessPath:
    if wanted.min_key is not None or wanted.max_key is not None:
        return _scan_between(reader, collection, index, wanted)
    candidate = _Candidate.of(reader, index, wanted, conditions, is_forced=True)
    if candidate is not None:
        return candidate.scan(collection, wanted)
    if "partialFilterExpression" in index.spec:
        reason = (
            f"error processing query: ns={collection.ns}: No query solutions: "
            f"the hinted index {index.name} holds only some of the documents"
        )
        raise CommandError(ErrorCode.NoQueryExecutionPlans, reason)
    return _scan(collection, wanted, conditions, None)


def _scan_between(reader: Reader, collection: Collection, index: Index, wanted: Wanted) -> AccessPath:
    lower, before = key_bounds(index, wanted.min_key, wanted.max_key, wanted.collation)
    is_multikey = not index.is_id and reader.is_multikey(index)
    candidate = _Candidate(index, is_multikey, (), wanted.sort, key_space(index, wanted.collation))
    is_backward = None if is_multikey else candidate.is_backward
    return IndexScan(
        collection,
        index,
        [(lower, b"")],
        reverse=bool(is_backward),
        is_multikey=is_multikey,
        ordering=None if is_backward is None else wanted.ordering,
        before=before,
    )


def _clustered_between(collection: Collection, wanted: Wanted) -> AccessPath:
    """Records between two values of `_id`, in whose order a clustered collection has them."""
    lower, before = record_key_bounds(collection, wanted.min_key, wanted.max_key, wanted.collation)
    is_ordered = list(wanted.sort) == ["_id"] and wanted.collation == collection.collation
    if is_ordered and whole_direction(wanted.sort["_id"]) < 0:
        raise CommandError(6137402, "min() and max() of a clustered collection need an ascending sort")
    scan = CollectionScan(collection, after=lower, stop=before)
    scan.is_ordered = is_ordered
    return scan


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An index that can serve a query, and how well."""

    index: Index
    is_multikey: bool
    bounds: tuple[FieldIntervals, ...]
    """For the first fields of the index that have bounds."""
    sort: Mapping[str, Any]
    keys: KeySpace

    @classmethod
    def of(
        cls,
        reader: Reader,
        index: Index,
        wanted: Wanted,
        conditions: Mapping[str, list[Condition]],
        *,
        is_forced: bool = False,
    ) -> "_Candidate | None":
        """An index as a candidate; None if it is of no use, or lacks documents that may match."""
        if not _is_plain(index) or index.spec.get("hidden"):
            return None
        is_multikey = not index.is_id and reader.is_multikey(index)
        keys = key_space(index, wanted.collation)
        bounds = _field_bounds(index, conditions, keys, is_multikey=is_multikey)
        if index.spec.get("sparse") and not is_forced and (not bounds or bounds[0].finds_missing):
            return None
        partial = index.spec.get("partialFilterExpression")
        # With different collations, strings that match the query may not match the index's filter.
        if partial is not None and not (keys.has_strings and _implies(conditions, partial, keys.collation)):
            return None
        return cls(index, is_multikey, bounds, wanted.sort, keys)

    @property
    def score(self) -> tuple[tuple[int, ...], bool, bool]:
        """Greater is better: how tight each field's bounds are, then whether a sort is unnecessary."""
        return tuple(_tightness(bound) for bound in self.bounds), self.serves_sort, self.index.unique

    @property
    def serves_sort(self) -> bool:
        """Whether the index has the order of the query's sort."""
        return self.is_backward is not None

    @property
    def is_backward(self) -> bool | None:
        """Whether the index has to be read backwards for the sort; None if it does not have that order."""
        if not self.sort or not self.keys.has_strings or (self.is_multikey and self.bounds):
            return None
        fixed = {
            path
            for (path, _), bound in zip(self.index.key, self.bounds, strict=False)
            if len(bound.intervals) == 1 and bound.are_points
        }
        return _order_of(self.index, fixed, self.sort)

    def scan(self, collection: Collection, wanted: Wanted) -> AccessPath:
        """The access path."""
        if any(not bound.intervals for bound in self.bounds):
            return NoAccess(collection)
        paths = [path for path, _ in self.index.key]
        is_backward = self.is_backward
        return IndexScan(
            collection,
            self.index,
            _ranges(self.index, self.bounds),
            reverse=bool(is_backward),
            is_multikey=self.is_multikey,
            bounds={path: bound.intervals for path, bound in zip(paths, self.bounds, strict=False)},
            ordering=None if is_backward is None else wanted.ordering,
        )


def _is_plain(index: Index) -> bool:
    """Whether an index stores the values of its fields in BSON order."""
    return all(not isinstance(direction, str) and "$**" not in path for path, direction in index.key)


def _field_bounds(
    index: Index, conditions: Mapping[str, list[Condition]], keys: KeySpace, *, is_multikey: bool
) -> tuple[FieldIntervals, ...]:
    bounds: list[FieldIntervals] = []
    roots: set[str] = set()
    ranges = 1
    for path, _ in index.key:
        root = path.partition(".")[0]
        if is_multikey and root in roots:
            break  # two fields of one array's elements: different elements may satisfy the conditions
        roots.add(root)
        found = field_intervals(conditions.get(path, ()), keys, may_have_arrays=is_multikey)
        if found is None or ranges * len(found.intervals) > _MOST_RANGES:
            break
        bounds.append(found)
        ranges *= len(found.intervals)
        if not found.are_points:
            break
    return tuple(bounds)


def _tightness(bound: FieldIntervals) -> int:
    if bound.are_points:
        return 4 if len(bound.intervals) <= 1 else 3
    return 2 if bound.covered > 1 or len(bound.intervals) > 1 else 1


def _ranges(index: Index, bounds: Sequence[FieldIntervals]) -> list[tuple[bytes, bytes]]:
    ranges = [(b"", b"")]
    for (_, direction), bound in zip(index.key, bounds, strict=False):
        intervals = bound.intervals or (EVERYTHING,)
        if is_descending(direction):
            intervals = tuple(interval.descending() for interval in reversed(intervals))
        ranges = [
            (lower + interval.lower, upper + interval.upper)
            for lower, upper in ranges
            for interval in intervals
        ]
    return ranges


def _order_of(index: Index, fixed: set[str], sort: Mapping[str, Any]) -> bool | None:
    """Whether reading the index backwards gives the order (or forwards: False); None if neither does."""
    fields = list(index.key)
    position = 0
    is_backward: bool | None = None
    for path, direction in sort.items():
        while position < len(fields) and fields[position][0] != path and fields[position][0] in fixed:
            position += 1
        if position == len(fields) or fields[position][0] != path:
            if path in fixed:
                continue
            return None
        turned = (whole_direction(direction) < 0) != is_descending(fields[position][1])
        if is_backward is not None and turned != is_backward:
            return None
        is_backward = turned
        position += 1
        if path == "_id":
            break  # no two documents are equal up to here
    return bool(is_backward)


def _is_within(given: Condition, wanted: Condition) -> bool:
    """Whether a condition is the wanted one, or a narrower range in the same direction."""
    if given == wanted:
        return True
    (name, value), (wanted_name, limit) = given, wanted
    if name[:3] != wanted_name[:3] or name not in _RANGES or wanted_name not in _RANGES:
        return False
    if type_bracket(value) != type_bracket(limit):
        return False
    order = compare(value, limit)
    if order == 0:
        return name == wanted_name or not name.endswith("e")
    return order < 0 if name in ("$lt", "$lte") else order > 0


def _implies(
    conditions: Mapping[str, list[Condition]], partial: Mapping[str, Any], collation: Collation | None
) -> bool:
    """Whether a partial index certainly contains every document that satisfies the conditions."""
    for path, condition in partial.items():
        if path.startswith("$"):
            return False
        wanted = list(condition.items()) if is_operator_document(condition) else [("$eq", condition)]
        given = conditions.get(path, [])
        if all(any(_is_within(one, condition) for one in given) for condition in wanted):
            continue
        values = [value for operator, value in given if operator == "$eq"]
        holds = compile_match({"value": condition}, collation=collation)
        # Documents without the field also equal null.
        if not any(holds({"value": value}) and (value is not None or holds({})) for value in values):
            return False
    return True
