"""Constant parts of expressions, computed as a server does before it moves filters.

What an expression reads decides where a filter is tested, and a branch that is never taken reads nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.events.stages.rewrites.reordering import UserStage
from tailrace.query.dialect import Dialect
from tailrace.query.expressions import parse_expression
from tailrace.query.expressions.scope import Constant
from tailrace.query.missing import MISSING

_COMPUTING: Final = ("$addFields", "$set", "$project")
_BINDING: Final = frozenset({"$let", "$map", "$filter", "$reduce"})


class Folding:
    """Computes constants, with the variables of the command, in the dialect of a release."""

    def __init__(self, variables: Mapping[str, Any], dialect: Dialect) -> None:
        self._variables = variables
        self._dialect = dialect

    def stage(self, stage: UserStage) -> UserStage:
        """Return a stage that does the same, with its expressions folded."""
        name, spec = stage
        if name == "$match":
            return name, self._filter(spec)
        if name in _COMPUTING:
            return name, {path: self.expression(value) for path, value in spec.items()}
        return stage

    def _filter(self, condition: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(condition)
        for name, value in condition.items():
            if name in ("$and", "$or", "$nor"):
                found[name] = [self._filter(part) for part in value]
            elif name == "$expr":
                found[name] = self.expression(value)
        return found

    def expression(self, spec: Any) -> Any:
        """Return an expression with the same value.

        >>> Folding({}, Dialect()).expression({"$cond": [{"$gt": [1, 2]}, "$a", {"$add": ["$b", 3]}]})
        {'$add': ['$b', 3]}
        """
        if isinstance(spec, str) and spec.startswith("$$") and spec[2:] in self._variables:
            return {"$literal": self._variables[spec[2:]]}
        if isinstance(spec, list):
            return [self.expression(part) for part in spec]
        if not isinstance(spec, Mapping) or not spec:
            return spec
        name, argument = next(iter(spec.items()))
        if not name.startswith("$"):
            return {field: self.expression(value) for field, value in spec.items()}
        if name == "$literal":
            return spec
        inner = Folding({}, self._dialect) if name in _BINDING else self
        argument = inner.expression(argument)
        return self._computed(name, argument) or _simplified(name, argument)

    def _computed(self, name: str, argument: Any) -> dict[str, Any] | None:
        """The literal that an operator on constants gives; its errors are those of the whole pipeline."""
        if not _is_constant(argument):
            return None
        try:
            found = parse_expression({name: argument}, dialect=self._dialect)
        except CommandError:
            return None
        is_value = isinstance(found, Constant) and found.value is not MISSING
        return {"$literal": found({})} if is_value else None


def _is_constant(spec: Any) -> bool:
    if isinstance(spec, str):
        return not spec.startswith("$")
    if isinstance(spec, list):
        return all(map(_is_constant, spec))
    if isinstance(spec, Mapping) and spec:
        first = next(iter(spec))
        return first == "$literal" or (
            not first.startswith("$") and all(_is_constant(value) for value in spec.values())
        )
    return True


def _simplified(name: str, argument: Any) -> Any:
    """An operator without the operands that have no effect, or the operand that it always returns."""
    if name == "$cond":
        return _condition(argument)
    if name in ("$and", "$or") and isinstance(argument, list):
        deciding = name == "$or"
        constants = [_is_true(part) for part in argument if _is_constant(part)]
        if deciding in constants:
            return {"$literal": deciding}
        return {name: [part for part in argument if not _is_constant(part)]}
    if name == "$ifNull" and isinstance(argument, list):
        return _if_null(argument)
    if name == "$switch":
        return _switch(argument)
    return {name: argument}


def _condition(argument: Any) -> Any:
    parts = argument
    if isinstance(argument, Mapping):
        parts = argument["if"], argument["then"], argument["else"]
    condition, then, otherwise = parts
    if not _is_constant(condition):
        return {"$cond": argument}
    return _as_expression(then if _is_true(condition) else otherwise)


def _if_null(operands: list[Any]) -> Any:
    kept: list[Any] = []
    for operand in operands:
        if not _is_constant(operand):
            kept.append(operand)
        elif _value(operand) is not None:
            kept.append(operand)
            break
    if not kept:
        return {"$literal": None}
    return {"$ifNull": kept} if len(kept) > 1 else _as_expression(kept[0])


def _switch(argument: Mapping[str, Any]) -> Any:
    kept: list[Mapping[str, Any]] = []
    for branch in argument["branches"]:
        if not _is_constant(branch["case"]):
            kept.append(branch)
        elif _is_true(branch["case"]):
            chosen = branch["then"]
            return {"$switch": {"branches": kept, "default": chosen}} if kept else _as_expression(chosen)
    if not kept and "default" in argument:
        return _as_expression(argument["default"])
    return {"$switch": {**argument, "branches": kept}} if kept else {"$switch": argument}


def _as_expression(spec: Any) -> Any:
    """A result of its own: in a projection a bare number or document would mean something else."""
    return {"$literal": _value(spec)} if _is_constant(spec) else spec


def _value(spec: Any) -> Any:
    return parse_expression(spec)({})


def _is_true(spec: Any) -> bool:
    return bool(parse_expression({"$and": [spec]})({}))
