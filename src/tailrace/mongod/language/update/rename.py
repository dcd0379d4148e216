"""``$rename``: an operator with two paths.

The target is set to the value at the source; the source is removed. Both are in the operator tree, so that
other operators conflict with either. If the source is missing, both are skipped. Neither may be in an array.
"""

from typing import Any

from tailrace.bson.shell_notation import shell
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.fields import removed_if_there
from tailrace.mongod.language.update.operator import Changed, Operator, Outcome, Path, UpdateContext, dotted
from tailrace.mongod.language.update.path import POSITIONAL, element_index, is_array_filter, split_update_path
from tailrace.query.missing import MISSING, Missing


def compile_rename(source_path: str, target_path: Any) -> list[tuple[str, Operator]]:
    """The operators for source and target, with their paths."""
    if not is_string(target_path):
        message = f"The 'to' field for $rename must be a string: {source_path}: {shell(target_path)}"
        raise CommandError(ErrorCode.BadValue, message)
    source, target = split_update_path(source_path), split_update_path(target_path)
    for end, components in (("source", source), ("destination", target)):
        if any(component == POSITIONAL or is_array_filter(component) for component in components):
            message = f"the {end} field of $rename cannot be dynamic: {'.'.join(components)}"
            raise CommandError(ErrorCode.BadValue, message)
        if any("\0" in component for component in components):
            message = f"the {end} field of $rename cannot contain a null byte"
            raise CommandError(ErrorCode.BadValue, message)
    shorter = min(len(source), len(target))
    if source[:shorter] == target[:shorter]:
        differ = "differ" if source == target else "not be on the same path"
        shown = f"{source_path}: {shell(target_path)}"
        message = f"The source and target field for $rename must {differ}: {shown}"
        raise CommandError(ErrorCode.BadValue, message)

    def is_skipped(context: UpdateContext) -> bool:
        return _source_value(source, context.original) is MISSING

    def apply_target(_current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if any(isinstance(step, int) for step in path):
            message = f"the destination field of $rename cannot be an array element: {dotted(path)}"
            raise CommandError(ErrorCode.BadValue, message)
        return Changed(_source_value(source, context.original))

    return [
        (target_path, Operator(apply_target, is_skipped, renamed_from=source)),
        (source_path, Operator(removed_if_there, is_skipped, is_removal_logged=False)),
    ]


def _source_value(source: tuple[str, ...], document: dict[str, Any]) -> Any | Missing:
    value: Any = document
    in_array = False
    for name in source:
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and (index := element_index(name)) is not None:
            in_array = True
            value = value[index] if index < len(value) else MISSING
        else:
            message = f"the source {'.'.join(source)!r} of $rename leads through a value without fields"
            raise CommandError(ErrorCode.PathNotViable, message)
        if value is MISSING:
            return MISSING
    if in_array:
        message = f"the source field of $rename cannot be an array element: {'.'.join(source)}"
        raise CommandError(ErrorCode.BadValue, message)
    return value
