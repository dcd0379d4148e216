"""Conditions that an index serves with wide bounds: nearly all of it, in its order.

A mongod prefers any index that has bounds, even as wide as those of ``{_id: {$ne: 1}}``, to a scan of the
collection, so documents come in the order of the index. Here the whole index is read.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.values import is_string
from tailrace.pacing import ticking
from tailrace.query.match.conditions import Condition, conditions_of
from tailrace.query.match.scope import is_operator_document

_BOUNDED: Final = frozenset({
    "$eq", "$gt", "$gte", "$lt", "$lte", "$in", "$type", "$mod", "$exists", "$all", "$regex",
})  # fmt: skip
_NEGATED: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte", "$in"})
_COMPARED: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte"})


def widely_bounded_paths(query: Mapping[str, Any], *, may_have_arrays: bool = False) -> frozenset[str]:
    """The paths of a filter that an index could have bounds for; expressions compare whole arrays."""
    paths = frozenset(_paths(query))
    return paths if may_have_arrays else paths.union(_compared_path(query.get("$expr")))


def _paths(query: Mapping[str, Any]) -> Iterator[str]:
    for path, conditions in conditions_of(query).items():
        if any(_has_bounds(condition) for condition in conditions):
            yield path
    nor = query.get("$nor")
    for branch in nor if isinstance(nor, list) else ():
        if isinstance(branch, Mapping) and len(branch) == 1:
            ((path, value),) = branch.items()
            if not path.startswith("$") and _has_bounds(("$not", _as_operators(value))):
                yield path


def _compared_path(expression: Any) -> Iterator[str]:
    """The path of an expression that compares a field with a constant."""
    if not isinstance(expression, Mapping) or len(expression) != 1:
        return
    ((name, operands),) = expression.items()
    if name not in _COMPARED or not isinstance(operands, list) or len(operands) != 2:
        return
    field, constant = operands
    if is_string(field) and field.startswith("$") and not field.startswith("$$"):
        if not is_string(constant):
            is_constant = not isinstance(constant, list | Mapping)
        else:
            variable = constant[2:].partition(".")[0] if constant.startswith("$$") else None
            is_constant = not constant.startswith("$") or variable not in (None, "ROOT", "CURRENT")
        if is_constant:
            yield field[1:]


def _as_operators(value: Any) -> Any:
    if is_operator_document(value):
        return value
    return value if isinstance(value, Regex) else {"$eq": value}


def _has_bounds(condition: Condition) -> bool:
    name, argument = condition
    if name == "$ne":
        return not isinstance(argument, Regex)
    if name == "$nin":
        return isinstance(argument, list) and not any(isinstance(item, Regex) for item in argument)
    if name == "$not":
        return isinstance(argument, Mapping) and _NEGATED.issuperset(argument)
    if name == "$elemMatch":
        return is_operator_document(argument) and any(map(_has_bounds, argument.items()))
    return name in _BOUNDED


def one_of(query: Mapping[str, Any]) -> Iterator[tuple[str, Condition]]:
    """A ``$or`` of equalities on one path, as the ``$in`` that it amounts to."""
    branches = query.get("$or")
    if not isinstance(branches, list) or not branches:
        return
    values: list[Any] = []
    paths: set[str] = set()
    for branch in ticking(branches):
        if not isinstance(branch, Mapping) or len(branch) != 1:
            return
        ((path, value),) = branch.items()
        if path.startswith("$") or isinstance(value, Regex):
            return
        if is_operator_document(value):
            if list(value) != ["$eq"]:
                return
            value = value["$eq"]
        paths.add(path)
        values.append(value)
    if len(paths) == 1:
        yield paths.pop(), ("$in", values)
