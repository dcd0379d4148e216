"""Operators that set or remove a field: ``$set``, ``$setOnInsert``, ``$unset``, ``$currentDate``."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import (
    REMOVED,
    UNCHANGED,
    CompileOptions,
    Operator,
    Outcome,
    Path,
    UpdateContext,
    changed_unless_same,
)
from tailrace.query.missing import MISSING, Missing

_CURRENT_TYPES: Final = frozenset({"date", "timestamp"})


def compile_set(_path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$set`` takes any value."""
    return Operator(lambda current, _path, _context: changed_unless_same(current, value))


def compile_set_on_insert(_path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$setOnInsert`` takes any value; it applies only if the update inserts a document."""
    return Operator(
        lambda current, _path, _context: changed_unless_same(current, value),
        is_skipped=lambda context: not context.is_upsert_insert,
    )


def compile_unset(_path: str, _value: Any, _options: CompileOptions) -> Operator:
    """``$unset`` takes any value and ignores it."""
    return Operator(removed_if_there, tolerates_blocked_path=True)


def removed_if_there(current: Any | Missing, _path: Path, _context: UpdateContext) -> Outcome:
    """The outcome of an operator that removes a field."""
    return UNCHANGED if current is MISSING else REMOVED


def compile_current_date(path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$currentDate`` takes a bool for the date, or ``{$type: "date" | "timestamp"}``."""
    if isinstance(value, bool):
        kind: Any = "date"
    elif isinstance(value, Mapping) and list(value) == ["$type"]:
        kind = value["$type"]
    else:
        kind = None
    if not is_string(kind) or kind not in _CURRENT_TYPES:
        message = f"$currentDate of {path!r} takes true or {{$type: 'date' or 'timestamp'}}"
        raise CommandError(ErrorCode.BadValue, message)

    def apply(current: Any | Missing, _path: Path, context: UpdateContext) -> Outcome:
        return changed_unless_same(current, context.now if kind == "date" else context.cluster_time)

    return Operator(apply)
