"""Operators that add elements to an array: ``$push`` and ``$addToSet``.

Elements that `$push` appends to a non-empty array are logged one by one; otherwise the log has the whole new
array.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson.compare import StringKey, sort_key, type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import (
    UNCHANGED,
    Changed,
    CompileOptions,
    Operator,
    Outcome,
    Path,
    UpdateContext,
    checked_array,
)
from tailrace.mongod.language.update.path import element_index
from tailrace.query.expressions.numbers.number_types import integral_value
from tailrace.query.missing import MISSING, Missing

_CLAUSES: Final = frozenset({"$each", "$position", "$slice", "$sort"})


def compile_add_to_set(path: str, value: Any, options: CompileOptions) -> Operator:
    """``$addToSet`` takes a value, or values as ``{$each: [...]}``; existing values are not added again."""
    values = [value]
    if isinstance(value, Mapping) and next(iter(value), None) == "$each":
        if len(value) > 1:
            raise CommandError(ErrorCode.BadValue, f"$addToSet of {path!r} has fields besides $each")
        values = value["$each"]
        if not isinstance(values, list):
            kind = type_name(values)
            message = f"The argument to $each in $addToSet must be an array but it was of type {kind}"
            raise CommandError(ErrorCode.TypeMismatch, message)

    def apply(current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if current is MISSING:
            return Changed(_not_among([], values, options.string_key))
        array = checked_array("$addToSet", current, path, context)
        new = _not_among(array, values, options.string_key)
        return Changed(array + new) if new else UNCHANGED

    return Operator(apply)


def _not_among(array: Iterable[Any], values: Iterable[Any], string_key: StringKey) -> list[Any]:
    """The values that equal no element, without duplicates."""
    known = {sort_key(item, string_key) for item in array}
    new = []
    for value in values:
        key = sort_key(value, string_key)
        if key not in known:
            known.add(key)
            new.append(value)
    return new


@dataclass(frozen=True, slots=True)
class _Clauses:
    """The clauses of ``$push`` besides ``$each``."""

    position: int | None
    slice: int | None
    sort: Callable[[list[Any]], list[Any]] | None

    def push(self, array: list[Any], values: list[Any]) -> list[Any]:
        """Insert, then sort, then slice."""
        # As in Python, a negative position counts from the end, and positions are cut to the array's length.
        position = len(array) if self.position is None else self.position
        result = [*array[:position], *values, *array[position:]]
        if self.sort is not None:
            result = self.sort(result)
        if self.slice is None:
            return result
        return result[: self.slice] if self.slice >= 0 else result[self.slice :]

    def pushed(self, array: list[Any], values: list[Any]) -> Outcome:
        """The outcome for an array; a sort or a cut counts as a change, even if the result is equal."""
        result = self.push(array, values)
        is_cut = len(result) < len(array) + len(values)
        if not (values or is_cut or (self.sort is not None and array)):
            return UNCHANGED
        is_at_end = self.position is None or self.position > len(array)
        is_appended = bool(values) and is_at_end and self.sort is None and not is_cut
        return Changed(result, appended_from=(len(array) or None) if is_appended else None)


_NO_CLAUSES: Final = _Clauses(None, None, None)


def compile_push(path: str, value: Any, options: CompileOptions) -> Operator:
    """``$push`` takes a value, or ``{$each: [...], $position, $slice, $sort}``."""
    if not isinstance(value, Mapping) or "$each" not in value:
        return _push([value], _NO_CLAUSES)
    for name in value:
        if name not in _CLAUSES:
            raise CommandError(ErrorCode.BadValue, f"$push of {path!r} has an unknown clause {name!r}")
    values = value["$each"]
    if not isinstance(values, list):
        message = f"The argument to $each in $push must be an array but it was of type: {type_name(values)}"
        raise CommandError(ErrorCode.BadValue, message)
    sort = _compile_sort(path, value["$sort"], options.string_key) if "$sort" in value else None
    position, cut = _integer_clause(path, value, "$position"), _integer_clause(path, value, "$slice")
    return _push(values, _Clauses(position, cut, sort))


def _push(values: list[Any], clauses: _Clauses) -> Operator:
    def apply(current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if current is MISSING:
            return Changed(clauses.push([], values))
        return clauses.pushed(checked_array("$push", current, path, context), values)

    return Operator(apply)


def _integer_clause(path: str, clauses: Mapping[str, Any], name: str) -> int | None:
    if name not in clauses:
        return None
    number = integral_value(clauses[name])
    if number is None:
        message = f"{name} in $push of {path!r} must be an integer, not {type_name(clauses[name])}"
        raise CommandError(ErrorCode.BadValue, message)
    return number


def _compile_sort(path: str, spec: Any, string_key: StringKey) -> Callable[[list[Any]], list[Any]]:
    """``1`` or ``-1`` sorts by whole elements, ``{field: 1 | -1, ...}`` by fields inside them."""
    if isinstance(spec, Mapping):
        keys = [(name.split("."), _is_descending(path, value)) for name, value in spec.items()]
        if not keys or any("" in components for components, _ in keys):
            message = f"$sort in $push of {path!r} needs fields, and no empty field names"
            raise CommandError(ErrorCode.BadValue, message)
    else:
        keys = [([], _is_descending(path, spec))]

    def sort(items: list[Any]) -> list[Any]:
        # A stable sort by each key, the least important first.
        for components, reverse in reversed(keys):
            by_key = [(sort_key(_field_or_null(item, components), string_key), item) for item in items]
            by_key.sort(key=lambda pair: pair[0], reverse=reverse)
            items = [item for _, item in by_key]
        return items

    return sort


def _is_descending(path: str, value: Any) -> bool:
    number = integral_value(value)
    if number not in (1, -1):
        message = f"$sort in $push of {path!r} must be 1 or -1, or fields with 1 or -1"
        raise CommandError(ErrorCode.BadValue, message)
    return number == -1


def _field_or_null(value: Any, components: list[str]) -> Any:
    for name in components:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and (index := element_index(name)) is not None and index < len(value):
            value = value[index]
        else:
            return None
    return value
