"""Filters in the form in which a mongod shows them: one condition for each predicate, in its order."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bson import Regex

from tailrace.bson.compare import compare, sort_key
from tailrace.pacing import ticking
from tailrace.query.expressions.arrays.ordered import in_order
from tailrace.query.match.conditions import Condition
from tailrace.query.match.scope import is_operator_document

_AND: Final = 0
_OR: Final = 1
_NOT: Final = 18
_NOR: Final = 19
_OTHER: Final = 30
_RANKS: Final[Mapping[str, int]] = {
    "$elemMatch": 2, "$size": 4, "$eq": 5, "$lte": 6, "$lt": 7, "$gt": 8, "$gte": 9, "$regex": 10, "$mod": 11,
    "$exists": 12, "$in": 13, "$bitsAllSet": 14, "$bitsAllClear": 15, "$bitsAnySet": 16, "$bitsAnyClear": 17,
    "$type": 20,
}  # fmt: skip
"""The order of predicates in a conjunction, before that of their paths."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """One condition of a conjunction."""

    rank: int
    path: str
    shown: Mapping[str, Any]
    condition: Condition | None = None
    """The comparison as the query has it, for one that an index can decide."""


def parsed(query: Mapping[str, Any]) -> dict[str, Any]:
    """A filter as explain shows it.

    >>> parsed({"b": {"$gt": 1, "$lt": 5}, "a": 2})
    {'$and': [{'a': {'$eq': 2}}, {'b': {'$lt': 5}}, {'b': {'$gt': 1}}]}
    >>> parsed({"a": {"$ne": 1}})
    {'a': {'$not': {'$eq': 1}}}
    """
    return joined(predicates(query))


def joined(conditions: Sequence[Predicate]) -> dict[str, Any]:
    """A conjunction."""
    shown = [dict(condition.shown) for condition in conditions]
    return {"$and": shown} if len(shown) > 1 else shown[0] if shown else {}


def predicates(query: Mapping[str, Any]) -> list[Predicate]:
    """The conditions that all must hold, in the order of explain."""
    return _sorted(_predicates(query))


def _sorted(conditions: Iterator[Predicate]) -> list[Predicate]:
    return sorted(conditions, key=lambda condition: (condition.rank, condition.path))


def _predicates(query: Mapping[str, Any]) -> Iterator[Predicate]:
    for name, value in query.items():
        if name == "$and":
            for part in value:
                yield from _predicates(part)
        elif name == "$or":
            yield from _alternatives(value)
        elif name == "$nor":
            yield _none_of([predicates(part) for part in value])
        elif name.startswith("$"):
            if name != "$comment":
                yield Predicate(_OTHER, "", {name: value})
        elif is_operator_document(value):
            yield from _on_path(name, value)
        else:
            yield _equality(name, value)


def _alternatives(parts: Sequence[Mapping[str, Any]]) -> Iterator[Predicate]:
    if len(parts) == 1:
        yield from _predicates(parts[0])
        return
    found = [predicates(part) for part in parts]
    firsts = [part[0] for part in found if len(part) == 1]
    path = firsts[0].path if firsts else ""
    if len(firsts) == len(found) and all(one.path == path and one.rank == _RANKS["$eq"] for one in firsts):
        yield _membership(path, [one.shown[path]["$eq"] for one in firsts])
        return
    ordered = sorted(found, key=lambda part: (part[0].rank, part[0].path) if len(part) == 1 else (_AND, ""))
    yield Predicate(_OR, "", {"$or": [joined(part) for part in ordered]})


def _none_of(parts: Sequence[Sequence[Predicate]]) -> Predicate:
    if len(parts) == 1 and len(parts[0]) == 1 and parts[0][0].path in parts[0][0].shown:
        (only,) = parts[0]
        return _negated(only.path, only)
    return Predicate(_NOR, "", {"$nor": [joined(part) for part in parts]})


def _on_path(path: str, operators: Mapping[str, Any]) -> Iterator[Predicate]:
    for operator, value in operators.items():
        match operator:
            case "$eq":
                yield _equality(path, value)
            case "$ne":
                yield _negated(path, _equality(path, value))
            case "$in" if isinstance(value, list):
                yield _membership(path, value)
            case "$nin" if isinstance(value, list):
                yield _negated(path, _membership(path, value))
            case "$exists":
                positive = Predicate(_RANKS["$exists"], path, {path: {"$exists": True}})
                yield positive if value else _negated(path, positive)
            case "$not":
                yield _inverse(path, value)
            case "$all" if isinstance(value, list):
                for item in value:
                    yield from (
                        _on_path(path, item) if is_operator_document(item) else (_equality(path, item),)
                    )
            case "$elemMatch" if isinstance(value, Mapping):
                inner = _on_path("", value) if is_operator_document(value) else None
                shown = parsed(value) if inner is None else _operators(_sorted(inner))
                yield Predicate(_RANKS["$elemMatch"], path, {path: {"$elemMatch": shown}})
            case "$options":
                continue
            case "$regex":
                yield _expression(path, value, operators.get("$options"))
            case _:
                condition = (operator, value) if operator in ("$gt", "$gte", "$lt", "$lte") else None
                yield Predicate(_RANKS.get(operator, _OTHER), path, {path: {operator: value}}, condition)


def _operators(conditions: Sequence[Predicate]) -> dict[str, Any]:
    return {name: value for one in conditions for name, value in one.shown[one.path].items()}


def _equality(path: str, value: Any) -> Predicate:
    if isinstance(value, Regex):
        return _expression(path, value, None)
    return Predicate(_RANKS["$eq"], path, {path: {"$eq": value}}, ("$eq", value))


def _membership(path: str, values: Sequence[Any]) -> Predicate:
    ordered: list[Any] = []
    for value in in_order((sort_key(value), value) for value in ticking(values)):
        if not ordered or compare(ordered[-1], value) != 0:
            ordered.append(value)
    if len(ordered) == 1 and not isinstance(ordered[0], Regex):
        return Predicate(_RANKS["$eq"], path, {path: {"$eq": ordered[0]}}, ("$in", list(values)))
    return Predicate(_RANKS["$in"], path, {path: {"$in": ordered}}, ("$in", list(values)))


def _expression(path: str, value: Any, options: Any) -> Predicate:
    shown: dict[str, Any] = {"$regex": value.pattern if isinstance(value, Regex) else value}
    flags = options if options is not None else _flags(value) if isinstance(value, Regex) else ""
    if flags:
        shown["$options"] = flags
    return Predicate(_RANKS["$regex"], path, {path: shown})


def _flags(value: "Regex[Any]") -> str:
    letters = {"i": 2, "m": 8, "s": 16, "x": 64}
    return "".join(letter for letter, flag in letters.items() if value.flags & flag)


def _negated(path: str, positive: Predicate) -> Predicate:
    return Predicate(_NOT, path, {path: {"$not": positive.shown[path]}})


def _inverse(path: str, value: Any) -> Predicate:
    inner = _sorted(_on_path(path, value)) if isinstance(value, Mapping) else [_equality(path, value)]
    if len(inner) == 1 and path in inner[0].shown:
        return _negated(path, inner[0])
    return Predicate(_NOT, "", {"$nor": [joined(inner)]})
