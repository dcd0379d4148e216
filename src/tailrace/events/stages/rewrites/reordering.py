"""The order in which a server runs the user's stages: filters move before stages that they do not depend on.

That shows where a stage fails: an event that a later filter drops cannot make an earlier stage fail, and no
image is required for it. A filter moves as a whole or in part: the conditions that all have to hold are moved
one by one. `$elemMatch`, `$size` and an empty `$all` never move, nor does what reads the whole event.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from bson import Regex

from tailrace.events.stages.rewrites import schema
from tailrace.events.stages.rewrites.simplify import simplified
from tailrace.query.match.scope import is_operator_document

UserStage: TypeAlias = tuple[str, Any]
"""(name, specification)"""
Filter: TypeAlias = Mapping[str, Any]
_STAY: Final = frozenset({"$elemMatch", "$size"})
_WHOLE_EVENT: Final = ""
"""A path that every other one is within."""
_COMPARISONS: Final = frozenset({"$eq", "$gt", "$gte", "$lt", "$lte"})
_SAFE_OPERATORS: Final = frozenset({
    "$mod", "$type", "$regex", "$options", "$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear",
})  # fmt: skip
_PASSES: Final = 2
"""A server goes over a pipeline twice, and simplifies filters between: what is left then moves once more."""


def reordered(
    stages: Sequence[UserStage], *, copies_filters: bool = True, sees_parents: bool = True
) -> list[UserStage]:
    """The stages in the order in which a server runs them.

    With ``copies_filters``, the safe part of a filter after `$redact` is tested before it, too. With
    ``sees_parents``, a filter on `x` does not move before a stage that copies a field to `x.y`.

    >>> reordered([("$set", {"a": 1}), ("$match", {"a": 1, "b": 2})])
    [('$match', {'b': 2}), ('$set', {'a': 1}), ('$match', {'a': 1})]
    """
    order = [
        (name, _with_comparisons(schema.without_schemas(spec)) if name == "$match" else spec)
        for name, spec in stages
    ]
    for number in range(_PASSES):
        if number:
            order = _simplified(order)
        order = _reordered_once(order, copies_filters=copies_filters, sees_parents=sees_parents)
    return order


def _simplified(stages: Sequence[UserStage]) -> list[UserStage]:
    """The stages with simpler filters, except after `$redact`: their copies would come too late to move."""
    before = [None, *(name for name, _ in stages)]
    return [
        (name, simplified(spec) if name == "$match" and previous != "$redact" else spec)
        for previous, (name, spec) in zip(before, stages, strict=False)
    ]


def _reordered_once(
    stages: Sequence[UserStage], *, copies_filters: bool, sees_parents: bool
) -> list[UserStage]:
    order = list(stages)
    place = 0
    while place + 1 < len(order):
        (name, spec), (following, condition) = order[place : place + 2]
        if following != "$match":
            place += 1
            continue
        if name == "$match":
            order[place : place + 2] = [("$match", _conjunction([spec, condition]))]
            place = max(place - 1, 0)  # the stage before may let a part of the second one pass
            continue
        if name == "$redact":
            safe = _redact_safe(condition) if copies_filters else None
            if safe is not None:
                order.insert(place, ("$match", safe))
                place += 1
            place += 1
            continue
        changes = _changes_of(name, spec, sees_parents=sees_parents)
        free, bound = (None, condition) if changes is None else _split(condition, changes)
        if free is None:
            place += 1
            continue
        rest = [] if bound is None else [("$match", bound)]
        order[place : place + 2] = [("$match", free), (name, spec), *rest]
        place = max(place - 1, 0)
    return order


def split_by(condition: Filter, path: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Divide a filter into the part that a stage which sets a field does not change, and the rest."""
    return _split(condition, _Changes(lambda read: _overlap(read, path)))


@dataclass(frozen=True)
class _Changes:
    """What a stage does to the fields of an event."""

    touches: Callable[[str], bool]
    """Whether it changes, adds or removes something at a path."""
    renames: Mapping[str, str] = field(default_factory=dict)
    """Fields that it copies, by their new names."""


def _changes_of(name: str, spec: Any, *, sees_parents: bool) -> _Changes | None:
    """None for a stage that no filter can pass."""
    if name == "$unset":
        removed = [spec] if isinstance(spec, str) else list(spec)
        return _Changes(lambda read: any(_overlap(read, path) for path in removed))
    if name not in ("$addFields", "$set", "$project"):
        return None
    values = dict(_flat(spec))
    renames = {
        path: value[1:]
        for path, value in values.items()
        if isinstance(value, str) and value.startswith("$") and "." not in value
        if not value.startswith("$$")
    }
    if name != "$project":
        computed = [path for path in values if path not in renames]
        return _Changes(
            lambda read: (
                any(_overlap(read, path) for path in computed)
                or (sees_parents and any(_is_within(path, read) and path != read for path in renames))
            ),
            renames,
        )
    if _excludes(values):
        excluded = [path for path, value in values.items() if not value]
        return _Changes(lambda read: any(_overlap(read, path) for path in excluded))
    kept = [path for path, value in values.items() if isinstance(value, bool | int | float) and value]
    if "_id" not in values:
        kept.append("_id")
    kept += renames
    return _Changes(lambda read: not any(_is_within(read, path) for path in kept), renames)


def _flat(spec: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        path = prefix + name
        if isinstance(value, Mapping) and value and not next(iter(value)).startswith("$"):
            yield from _flat(value, path + ".")
        else:
            yield path, value


def _excludes(values: Mapping[str, Any]) -> bool:
    return all(
        isinstance(value, bool | int | float) and not value for path, value in values.items() if path != "_id"
    ) and not (list(values) == ["_id"] and values["_id"])


def _is_within(path: str, other: str) -> bool:
    return path == other or path.startswith(f"{other}.")


def _overlap(path: str, other: str) -> bool:
    return path == _WHOLE_EVENT or _is_within(path, other) or _is_within(other, path)


# -- filters ------------------------------------------------------------------------------------------------


def _split(condition: Filter, changes: _Changes) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    free: list[dict[str, Any]] = []
    bound: list[dict[str, Any]] = []
    for part in _conjuncts(condition):
        can_move = _can_move(part) and not any(map(changes.touches, _paths(part)))
        (free if can_move else bound).append(part)
    if not bound:
        return _renamed(condition, changes.renames), None
    renamed = [_renamed(part, changes.renames) for part in free] if changes.renames else free
    return _conjunction(renamed) if renamed else None, _conjunction(bound) if bound else None


def _conjuncts(condition: Filter) -> Iterator[dict[str, Any]]:
    """The conditions that all have to hold."""
    for name, value in condition.items():
        if name == "$and":
            for part in value:
                yield from _conjuncts(part)
        elif name == "$nor":
            yield from ({name: [part]} for part in value)
        elif name.startswith("$") or not is_operator_document(value) or "$regex" in value:
            yield {name: value}
        else:
            yield from ({name: {operator: argument}} for operator, argument in value.items())


def _conjunction(parts: Sequence[Filter]) -> dict[str, Any]:
    return dict(parts[0]) if len(parts) == 1 else {"$and": [dict(part) for part in parts]}


def _can_move(condition: Filter) -> bool:
    for name, value in condition.items():
        if name in ("$and", "$or", "$nor"):
            if not all(map(_can_move, value)):
                return False
        elif name.startswith("$"):
            if name not in ("$expr", "$comment", "$sampleRate", "$jsonSchema"):
                return False
            if name == "$jsonSchema" and not schema.moves(value):
                return False
        elif is_operator_document(value) and _stays(value):
            return False
    return True


def _stays(operators: Mapping[str, Any]) -> bool:
    for name, value in operators.items():
        inner = value if name == "$all" else [value] if name == "$not" else []
        is_empty = name == "$all" and not inner
        if name in _STAY or is_empty or any(isinstance(part, Mapping) and _stays(part) for part in inner):
            return True
    return False


def _paths(condition: Filter) -> Iterator[str]:
    """The paths that a filter reads."""
    for name, value in condition.items():
        if name in ("$and", "$or", "$nor"):
            for part in value:
                yield from _paths(part)
        elif name == "$expr":
            yield from read_paths(value)
        elif name == "$jsonSchema":
            yield from value.get("properties", ())
        elif not name.startswith("$"):
            yield name


def _with_comparisons(condition: Filter) -> Filter:
    """A filter with the conditions that a server derives from the comparisons in its expression."""
    derived = [{"$expr": comparison} for comparison in _comparisons_in(condition.get("$expr"))]
    return _conjunction([condition, *derived]) if derived else condition


def _comparisons_in(expression: Any) -> list[Any]:
    """The parts of an `$and` that compare a field with a constant."""
    parts = expression.get("$and") if isinstance(expression, Mapping) else None
    return [part for part in parts if _is_comparison(part)] if isinstance(parts, list) else []


def _is_comparison(expression: Any) -> bool:
    if not isinstance(expression, Mapping) or len(expression) != 1:
        return False
    ((name, operands),) = expression.items()
    is_binary = name in _COMPARISONS and isinstance(operands, list) and len(operands) == 2
    return is_binary and sum(any(True for _ in read_paths(operand)) for operand in operands) == 1


def read_paths(expression: Any) -> Iterator[str]:
    """Yield the paths that an expression reads; an empty one if it reads the whole event."""
    if isinstance(expression, list):
        for part in expression:
            yield from read_paths(part)
    elif isinstance(expression, Mapping):
        if "$literal" in expression:
            return
        getting = expression.get("$getField", {"input": None})
        if not isinstance(getting, Mapping) or "input" not in getting:
            yield _WHOLE_EVENT
        for part in expression.values():
            yield from read_paths(part)
    elif isinstance(expression, str) and expression.startswith("$"):
        name, _, path = expression.partition(".")
        if not name.startswith("$$"):
            yield expression[1:]
        elif name in ("$$ROOT", "$$CURRENT"):
            yield path or _WHOLE_EVENT


def _renamed(condition: Filter, renames: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in condition.items():
        if name in ("$and", "$or", "$nor"):
            found[name] = [_renamed(part, renames) for part in value]
        elif name == "$expr":
            found[name] = _renamed_expression(value, renames)
        elif name.startswith("$"):
            found[name] = value
        else:
            found[_old_name(name, renames)] = value
    return found


def _renamed_expression(expression: Any, renames: Mapping[str, str]) -> Any:
    if isinstance(expression, list):
        return [_renamed_expression(part, renames) for part in expression]
    if isinstance(expression, Mapping):
        if "$literal" in expression:
            return expression
        return {name: _renamed_expression(part, renames) for name, part in expression.items()}
    if not isinstance(expression, str) or not expression.startswith("$"):
        return expression
    for prefix in ("$$ROOT.", "$$CURRENT.", "$"):
        if expression.startswith(prefix) and not expression.startswith("$$", len(prefix) - 1):
            return prefix + _old_name(expression.removeprefix(prefix), renames)
    return expression


def _old_name(path: str, renames: Mapping[str, str]) -> str:
    for new, old in renames.items():
        if _is_within(path, new):
            return old + path.removeprefix(new)
    return path


def _redact_safe(condition: Filter) -> dict[str, Any] | None:
    """The part of a filter that holds for an event if it holds for any redaction of it."""
    parts: list[dict[str, Any]] = []
    for name, value in condition.items():
        if name == "$and":
            parts += [safe for part in value if (safe := _redact_safe(part)) is not None]
        elif name == "$or":
            branches = [_redact_safe(part) for part in value]
            if all(branch is not None for branch in branches):
                parts.append({name: branches})
        elif not name.startswith("$") and not any(part.isdigit() for part in name.split(".")):
            if isinstance(value, Regex):
                parts.append({name: value})
                continue
            safe_ones = _safe_operators(value if is_operator_document(value) else {"$eq": value})
            if safe_ones:
                parts.append({name: safe_ones})
    return _conjunction(parts) if parts else None


def _safe_operators(operators: Mapping[str, Any]) -> dict[str, Any]:
    safe: dict[str, Any] = {}
    for operator, value in operators.items():
        if _is_safe(operator, value):
            safe[operator] = value
        elif operator == "$all":
            items = [item for item in value if _is_safe_item(item)]
            if items:
                safe[operator] = items
        elif operator == "$elemMatch":
            found = _safe_operators(value) if is_operator_document(value) else _redact_safe(value)
            if found:
                safe[operator] = found
    return safe


def _is_safe(operator: str, value: Any) -> bool:
    if operator == "$in":
        return all(map(_is_safe_item, value))
    return operator in _SAFE_OPERATORS or (operator in _COMPARISONS and _is_safe_operand(value))


def _is_safe_item(value: Any) -> bool:
    return isinstance(value, Regex) or _is_safe_operand(value)


def _is_safe_operand(value: Any) -> bool:
    return value is not None and not isinstance(value, Mapping | list | Regex)
