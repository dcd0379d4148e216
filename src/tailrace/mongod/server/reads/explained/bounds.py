"""What an index decides of a filter: the bounds of its fields, and the conditions that are left."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Regex

from tailrace.bson.documents import decode
from tailrace.bson.shell_notation import shell
from tailrace.mongod.server.reads.access.access_paths import IndexScan
from tailrace.mongod.server.reads.access.intervals import (
    EVERYTHING,
    FieldIntervals,
    Interval,
    comparisons_of,
    field_intervals,
    key_space,
)
from tailrace.mongod.server.reads.access.wide_conditions import one_of
from tailrace.mongod.server.reads.explained.filters import Predicate, predicates
from tailrace.mongod.store.catalog import Collection, Index
from tailrace.mongod.store.indexes.index_keys import is_descending
from tailrace.mongod.store.reader import Reader
from tailrace.query.collation import Collation
from tailrace.query.match.conditions import Condition, conditions_of

_MOST_DOCUMENTS: Final = 500
"""How many are searched for arrays, which only explain shows by path."""


@dataclass(frozen=True, slots=True)
class IndexBounds:
    """The bounds of an index for a filter."""

    fields: Mapping[str, FieldIntervals]
    excluded: Mapping[str, Sequence[Any]]
    """Values that a field must not have, where that is all that is asked of it."""
    decided: tuple[Predicate, ...]
    """The conditions that the bounds decide completely."""
    left: tuple[Predicate, ...]
    """Those that are checked on documents."""

    @classmethod
    def of(
        cls, index: Index, query: Mapping[str, Any], collation: Collation | None, *, is_multikey: bool
    ) -> "IndexBounds":
        """The bounds of all fields; an access path may use fewer."""
        conditions = comparisons_of(query)
        for path, condition in one_of(query):
            conditions.setdefault(path, []).append(condition)
        keys = key_space(index, collation)
        fields: dict[str, FieldIntervals] = {}
        roots: set[str] = set()
        for path, _ in index.key:
            root = path.partition(".")[0]
            if is_multikey and root in roots:
                continue
            roots.add(root)
            found = field_intervals(conditions.get(path, ()), keys, may_have_arrays=is_multikey)
            if found is not None:
                fields[path] = found
        excluded = dict(_excluded(index, query, fields))
        decided: list[Predicate] = []
        left: list[Predicate] = []
        for predicate in predicates(query):
            is_decided = _decides(fields.get(predicate.path), predicate) or (
                predicate.path in excluded and not is_multikey
            )
            (decided if is_decided else left).append(predicate)
        return cls(fields, excluded, tuple(decided), tuple(left))

    def are_contiguous(self, index: Index) -> bool:
        """Whether the keys within the bounds follow one another, or begin with a few values."""
        is_open = False
        for path, _ in index.key:
            found = self.fields.get(path)
            if found is not None and is_open:
                return False
            is_open = is_open or found is None or not found.are_points
        return not self.excluded

    def shown(self, scan: IndexScan, *, undefined_is_null: bool) -> dict[str, list[str]]:
        """The bounds as texts, in the direction of the scan."""
        return {
            path: list(self._texts(path, is_descending(direction) != scan.reverse, undefined_is_null))
            for path, direction in scan.index.key
        }

    def _texts(self, path: str, is_backward: bool, undefined_is_null: bool) -> Iterator[str]:
        if path in self.excluded:
            texts = [shell(value) for value in self.excluded[path]]
            if is_backward:
                ends = ["[MaxKey", *(f"({text}" for text in reversed(texts))]
                starts = [*(f"{text})" for text in reversed(texts)), "MinKey]"]
            else:
                ends = ["[MinKey", *(f"({text}" for text in texts)]
                starts = [*(f"{text})" for text in texts), "MaxKey]"]
            yield from (f"{end}, {start}" for end, start in zip(ends, starts, strict=True))
            return
        found = self.fields.get(path)
        intervals = [EVERYTHING] if found is None else list(found.intervals)
        for interval in reversed(intervals) if is_backward else intervals:
            if interval.least is None and interval.greatest is None and undefined_is_null:
                yield from reversed(_UNDEFINED_AND_NULL) if is_backward else _UNDEFINED_AND_NULL
            else:
                yield turned(interval) if is_backward else interval.text


_UNDEFINED_AND_NULL: Final = ("[undefined, undefined]", "[null, null]")


def turned(interval: Interval) -> str:
    """An interval as a text, with its greater end first."""
    return Interval(b"", b"", interval.greatest, interval.least, interval.has_upper, interval.has_lower).text


def _decides(found: FieldIntervals | None, predicate: Predicate) -> bool:
    """Whether bounds leave nothing to check; null also finds what has no value."""
    if found is None or predicate.condition is None or predicate.condition not in found.conditions:
        return False
    operator, value = predicate.condition
    values = value if operator == "$in" else [value]
    return not any(item is None or isinstance(item, list | Regex) for item in values)


def _excluded(
    index: Index, query: Mapping[str, Any], fields: Mapping[str, FieldIntervals]
) -> Iterator[tuple[str, Sequence[Any]]]:
    given: dict[str, list[Condition]] = conditions_of(query)
    for path, _ in index.key:
        conditions = given.get(path, [])
        if path in fields or len(conditions) != 1:
            continue
        ((operator, value),) = conditions
        values = value if operator == "$nin" and isinstance(value, list) else [value]
        is_plain = not any(item is None or isinstance(item, list | dict | Regex) for item in values)
        if operator in ("$ne", "$nin") and is_plain and len(values) == 1:
            yield path, values


def multikey_paths(reader: Reader, collection: Collection, index: Index) -> dict[str, list[str]]:
    """For each field of an index, the parts of its path that lead to arrays, as some documents show."""
    if index.is_id:
        return {path: [] for path, _ in index.key}
    paths = [path for path, _ in index.key]
    found: dict[str, set[str]] = {path: set() for path in paths}
    for number, (_, raw) in enumerate(reader.records(collection, None)):
        if number >= _MOST_DOCUMENTS:
            break
        document = decode(raw)
        for path in paths:
            _collect(document, path.split("."), 0, found[path])
    return {path: [part for part in _prefixes(path) if part in found[path]] for path in paths}


def _prefixes(path: str) -> list[str]:
    parts = path.split(".")
    return [".".join(parts[: number + 1]) for number in range(len(parts))]


def _collect(value: Any, parts: Sequence[str], depth: int, found: set[str]) -> None:
    if depth == len(parts) or not isinstance(value, dict):
        return
    inner = value.get(parts[depth])
    if isinstance(inner, list):
        found.add(".".join(parts[: depth + 1]))
        for item in inner:
            _collect(item, parts, depth + 1, found)
    else:
        _collect(inner, parts, depth + 1, found)
