"""The order in which the conditions of a filter are tested; it shows when an expression fails.

A server joins nested conjunctions and disjunctions, and what it joins comes last; several values of one field
in a disjunction come first, as one condition, and so does a value that is asked for several times; and what
an expression compares is tested as a condition, too. A stage tests the conditions in this order, a query in
the order of their kinds.

>>> in_evaluation_order({"$or": [{"$or": [{"a": {"$gt": 1}}, {"b": 1}]}, {"$expr": "$c"}]})
{'$or': [{'$expr': '$c'}, {'a': {'$gt': 1}}, {'b': 1}]}
>>> in_evaluation_order({"$or": [{"$expr": "$c"}, {"a": 1}, {"a": 2}]})
{'$or': [{'$or': [{'a': 1}, {'a': 2}]}, {'$expr': '$c'}]}
>>> in_evaluation_order({"$or": [{"$expr": "$c"}, {"b": 3}, {"a": 1}, {"a": 2}, {"b": 3}]})
{'$or': [{'b': 3}, {'$expr': '$c'}, {'a': 1}, {'a': 2}]}
>>> in_evaluation_order({"$or": [{"$expr": "$c"}, {"$or": [{"a": 1}, {"a": 2}]}]})
{'$or': [{'$expr': '$c'}, {'$or': [{'a': 1}, {'a': 2}]}]}
>>> in_evaluation_order({"$and": [{"$expr": {"$gt": ["$a", 1]}}, {"$expr": "$c"}]})
{'$and': [{'$expr': '$c'}, {'$expr': {'$gt': ['$a', 1]}}, {'$expr': {'$gt': ['$a', 1]}}]}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bson import Regex

from tailrace.bson.compare import sort_key
from tailrace.query.match.scope import is_operator_document

_AND: Final = "$and"
_OR: Final = "$or"
_NOR: Final = "$nor"
_COMPARISONS: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte"})
Filter: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class _Combination:
    operator: str
    parts: "list[_Part]"
    values_of: str | None = None
    """The path of a disjunction that asks for some of its values."""


_Part: TypeAlias = _Combination | Filter
"""A combination, or a filter of one condition."""


def has_expression(value: Any) -> bool:
    """Whether a filter has an expression, which is all that can fail in it."""
    if isinstance(value, Mapping):
        return "$expr" in value or any(map(has_expression, value.values()))
    return isinstance(value, list) and any(map(has_expression, value))


def in_evaluation_order(spec: Filter, *, is_query: bool = False) -> dict[str, Any]:
    """A filter that passes the same, with its conditions in the order of their tests."""
    ordered = _ordered(spec)
    return _written(_by_kind(ordered) if is_query else ordered)


def _written(part: _Part) -> dict[str, Any]:
    if not isinstance(part, _Combination):
        return dict(part)
    if part.parts:
        return {part.operator: [_written(child) for child in part.parts]}
    return {"$alwaysTrue" if part.operator == _AND else "$alwaysFalse": 1}


def _ordered(spec: Filter) -> _Part:
    return _joined(_AND, [part for name, value in spec.items() for part in _parts(name, value)])


def _parts(name: str, value: Any) -> list[_Part]:
    """What a field of a filter asks for; all of it has to hold."""
    if name in (_AND, _OR):
        return [_joined(name, [_ordered(part) for part in value])]
    if name == _NOR:
        return [_Combination(_NOR, [_ordered(part) for part in value])]
    if name == "$expr":
        tested = _as_condition(value)
        return [{name: value} if tested is None else _joined(_AND, [tested, {name: value}])]
    if name.startswith("$") or not is_operator_document(value):
        return [] if name == "$comment" else [{name: value}]
    return [
        _condition(name, operator, argument, value)
        for operator, argument in value.items()
        if operator != "$options"
    ]


def _condition(path: str, operator: str, argument: Any, beside: Filter) -> _Part:
    if operator == "$all" and len(argument) > 1:
        return _joined(
            _AND, [{path: item if is_operator_document(item) else {"$eq": item}} for item in argument]
        )
    if operator == "$regex" and "$options" in beside:
        return {path: {operator: argument, "$options": beside["$options"]}}
    return {path: {operator: argument}}


def _joined(operator: str, parts: list[_Part]) -> _Part:
    """A conjunction or disjunction, with the parts of nested ones at the end; values stay together."""
    own: list[_Part] = []
    nested: list[_Part] = []
    for part in parts:
        if isinstance(part, _Combination) and part.operator == operator and not part.values_of:
            nested += part.parts
        else:
            own.append(part)
    joined = own + nested
    if operator == _OR:
        joined = _with_values_first(joined)
    return joined[0] if len(joined) == 1 else _Combination(operator, joined)


def _with_values_first(parts: list[_Part]) -> list[_Part]:
    """The parts with the values of one field as the first of them, as long as the first field has several."""
    joined: list[_Part] = []
    while path := next((name for part in parts if (name := _compared_path(part))), None):
        values = [part for part in parts if _compared_path(part) == path]
        if len(values) == 1:
            break
        parts = [part for part in parts if _compared_path(part) != path]
        if _is_one_value(values):
            return [values[0], *joined, *parts]  # it is a comparison again, of the first field
        joined.insert(0, _Combination(_OR, values, values_of=path))
    return joined + parts


def _is_one_value(parts: list[_Part]) -> bool:
    """Whether conditions of one path ask for the same value; regular expressions are never the same."""
    values = [_compared_value(part) for part in parts]
    return not any(isinstance(value, Regex) for value in values) and len(set(map(sort_key, values))) == 1


def _compared_value(part: _Part) -> Any:
    """The value or regular expression that a condition with a `_compared_path` asks for."""
    assert not isinstance(part, _Combination)
    (value,) = part.values()
    if not is_operator_document(value):
        return value
    ((operator, argument), *_) = value.items()
    if operator == "$regex":
        return argument if isinstance(argument, Regex) else Regex(argument)
    return argument if operator == "$eq" else argument[0]


def _compared_path(part: _Part) -> str | None:
    """The path of a condition that asks for one value or regular expression."""
    if isinstance(part, _Combination):
        return None
    ((path, value),) = part.items()
    if path.startswith("$"):
        return None
    if not is_operator_document(value):
        return path
    ((operator, argument), *_) = value.items()
    is_single = operator in ("$in", "$all") and len(argument) == 1 and not is_operator_document(argument[0])
    return path if operator in ("$eq", "$regex") or is_single else None


# -- the order of queries ---------------------------------------------------------------------------------

_KINDS: Final = (
    _AND, _OR, "$elemMatch", "$size", "$eq", "$lte", "$lt", "$gt", "$gte", "$regex", "$mod", "$exists", "$in",
    "$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear", "$not", _NOR, "$type", "$jsonSchema",
    "$alwaysFalse", "$alwaysTrue", "$expr",
)  # fmt: skip
_NEGATIONS: Final = frozenset({"$ne", "$nin", "$not"})


def _by_kind(part: _Part) -> _Part:
    if not isinstance(part, _Combination) or part.values_of:
        return part
    return _Combination(part.operator, sorted(map(_by_kind, part.parts), key=_place))


def _place(part: _Part) -> tuple[Any, ...]:
    """By kind, then by path, then by the places of its parts."""
    kind, path = _kind(part)
    rank = _KINDS.index(kind) if kind in _KINDS else len(_KINDS)
    parts = part.parts if isinstance(part, _Combination) and not part.values_of else []
    return rank, path, [_place(child) for child in parts]


def _kind(part: _Part) -> tuple[str, str]:
    if isinstance(part, _Combination):
        if part.values_of:
            return "$in", part.values_of
        if part.operator == _NOR and len(part.parts) == 1:
            _, path = _kind(part.parts[0])
            return "$not" if path else _NOR, path
        return part.operator, ""
    ((path, value),) = part.items()
    if path.startswith("$"):
        return path, ""
    if not is_operator_document(value):
        return "$regex" if isinstance(value, Regex) else "$eq", path
    ((operator, argument), *_) = value.items()
    if operator in _NEGATIONS or (operator == "$exists" and not argument):
        return "$not", path
    return "$eq" if operator != "$regex" and _compared_path(part) else operator, path


# -- expressions ------------------------------------------------------------------------------------------


def _as_condition(expression: Any) -> _Part | None:
    """What a server tests as a condition on fields before it evaluates an expression; None if nothing."""
    if not isinstance(expression, Mapping) or len(expression) != 1:
        return None
    ((operator, operands),) = expression.items()
    if not isinstance(operands, list):
        operands = [operands]
    if operator == _AND:
        known = [part for operand in operands if (part := _as_condition(operand)) is not None]
        return _joined(_AND, known) if known else None
    if operator == _OR:
        parts = [_as_condition(operand) for operand in operands]
        known = [part for part in parts if part is not None]
        return _joined(_OR, known) if known and len(known) == len(parts) else None
    is_comparison = operator in _COMPARISONS and len(operands) == 2
    if not is_comparison or _is_path(operands[0]) == _is_path(operands[1]):
        return None
    constant = operands[1] if _is_path(operands[0]) else operands[0]
    return {"$expr": expression} if _is_constant(constant) else None


def _is_path(operand: Any) -> bool:
    if not isinstance(operand, str) or not operand.startswith("$"):
        return False
    return not operand.startswith("$$") or operand.startswith(("$$ROOT.", "$$CURRENT."))


def _is_constant(operand: Any) -> bool:
    """Whether an operand is a value that conditions on fields know; constants were computed before."""
    if isinstance(operand, Mapping):
        if list(operand) == ["$literal"]:
            return not isinstance(operand["$literal"], list)
        return not any(name.startswith("$") for name in operand) and all(map(_is_constant, operand.values()))
    if isinstance(operand, str):
        return not operand.startswith("$")
    return not isinstance(operand, list | Regex)
