"""Parse `$merge`."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.scope import INTERNAL_DATABASES
from tailrace.mongod.language.aggregation.output import MergeTarget
from tailrace.mongod.language.aggregation.rows import Document
from tailrace.mongod.language.aggregation.scope import PipelineContext, StageScope
from tailrace.mongod.language.aggregation.specification import (
    checked_collection,
    checked_fields,
    checked_object,
    checked_text,
)
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import type_name
from tailrace.query.expressions.scope import check_variable_write

_WHEN_MATCHED: Final = ("replace", "keepExisting", "merge", "fail")
_WHEN_NOT_MATCHED: Final = ("insert", "discard", "fail")
_ONLY_WITH_INSERT: Final = ("keepExisting", "fail")
_OPTIONS: Final = ("on", "let", "whenMatched", "whenNotMatched")
_NEW: Final = "new"


def check_merge(name: str, spec: Any, _context: PipelineContext) -> None:
    if is_string(spec):
        return
    fields = checked_fields(
        name, spec, required=("into",), optional=_OPTIONS, not_object=ErrorCode.TypeMismatch
    )
    _checked_when_matched(name, fields.get("whenMatched", "merge"))
    _checked_mode(name, "whenNotMatched", fields.get("whenNotMatched", "insert"))
    _check_into(name, fields["into"])


def parse_merge(name: str, spec: Any, scope: StageScope) -> MergeTarget:
    """The target; a string is the name of the collection, with defaults for all options."""
    if is_string(spec):
        spec = {"into": spec}
    fields = checked_fields(name, spec, required=("into",), optional=_OPTIONS)
    database, collection = _checked_target(name, fields["into"], scope)
    when_matched = _checked_when_matched(name, fields.get("whenMatched", "merge"))
    when_not_matched = _checked_mode(name, "whenNotMatched", fields.get("whenNotMatched", "insert"))
    if when_matched in _ONLY_WITH_INSERT and when_not_matched != "insert":
        raise CommandError(
            51181,
            f"Combination of {name} modes 'whenMatched: {when_matched}' and 'whenNotMatched: "
            f"{when_not_matched}' is not supported",
        )
    if "let" in fields and is_string(when_matched):
        raise CommandError(51199, f"Cannot use 'let' variables with 'whenMatched: {when_matched}' mode")
    variables_for = _parse_variables(name, fields.get("let", {}), scope)
    on = _checked_on(name, fields["on"]) if "on" in fields else ("_id",)
    return MergeTarget(database, collection, on, when_matched, when_not_matched, variables_for)


def _check_into(name: str, into: Any) -> None:
    if isinstance(into, Mapping):
        if into.get("coll") in (None, ""):
            raise CommandError(5786801, f"{name} 'into' field must specify a 'coll' that is not empty")
    elif not is_string(into):
        raise CommandError(
            51178, f"{name} 'into' field must be either a string or an object, but found {type_name(into)}"
        )
    elif not into:
        raise CommandError(5786800, f"{name} 'into' field cannot be an empty string")


def _checked_target(name: str, into: Any, scope: StageScope) -> tuple[str, str]:
    database = scope.context.database
    if isinstance(into, Mapping):
        fields = checked_fields(f"{name}.into", into, required=("coll",), optional=("db",))
        collection = checked_text(f"{name}.into.coll", fields["coll"])
        if "db" in fields:
            database = checked_text(f"{name}.into.db", fields["db"])
    else:
        collection = into
    checked_collection(database, collection)
    if collection.startswith("system."):
        raise CommandError(31319, f"Cannot {name} to special collection: {collection}")
    if database in INTERNAL_DATABASES:
        raise CommandError(31320, f"Cannot {name} to internal database: {database}")
    return database, collection


def _checked_when_matched(name: str, value: Any) -> str | list[Any]:
    if isinstance(value, list):
        return value
    if not is_string(value):
        raise CommandError(
            51191, f"{name} 'whenMatched' field must be either a string or an array, found {type_name(value)}"
        )
    return _checked_mode(name, "whenMatched", value)


def _checked_mode(name: str, field: str, value: Any) -> str:
    text = checked_text(f"{name}.{field}", value)
    if text not in (_WHEN_MATCHED if field == "whenMatched" else _WHEN_NOT_MATCHED):
        raise CommandError(
            ErrorCode.BadValue, f"Enumeration value '{text}' for field '{name}.{field}' is not a valid value."
        )
    return text


def _checked_on(name: str, value: Any) -> tuple[str, ...]:
    paths = [value] if is_string(value) else value
    if not isinstance(paths, list):
        raise CommandError(
            51186,
            f"{name} 'on' field must be either a string or an array of strings, but found {type_name(value)}",
        )
    if not paths:
        raise CommandError(51187, f"If explicitly specifying {name} 'on', must include at least one field")
    checked: list[str] = []
    for path in paths:
        if not is_string(path):
            raise CommandError(
                51134, f"{name} 'on' array elements must be strings, but found {type_name(path)}"
            )
        split_path(path)
        if path in checked:
            raise CommandError(31465, f"Found a duplicate field '{path}' in {name} 'on'")
        checked.append(path)
    return tuple(checked)


def _parse_variables(name: str, let: Any, scope: StageScope) -> Callable[[Document], dict[str, Any]]:
    specs = checked_object(f"{name}.let", let)
    if specs.get(_NEW, "$$ROOT") != "$$ROOT":
        raise CommandError(
            51273, f"'let' of {name} may not define a value for the reserved '{_NEW}' variable but '$$ROOT'"
        )
    for variable in specs:
        check_variable_write(variable)
    expressions = {variable: scope.parse(value) for variable, value in specs.items() if variable != _NEW}

    def variables_for(document: Document) -> dict[str, Any]:
        env = scope.environment(document)
        return {_NEW: document, **{variable: value(env) for variable, value in expressions.items()}}

    return variables_for
