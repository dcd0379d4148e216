"""`$addFields`, also called `$set`: adds fields to a document, or overwrites them in place."""

from collections.abc import Mapping
from typing import Any

from tailrace.errors import CommandError
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import type_name
from tailrace.query.reshape.computed import ComputedFields
from tailrace.query.reshape.stage import Document, Stage, StageContext


def compile_add_fields(name: str, spec: Any, context: StageContext) -> Stage:
    """Compile the stage; nested documents are paths unless they are an operator, and may not be empty."""
    if not isinstance(spec, Mapping):
        raise CommandError(40272, f"{name} specification stage must be an object, got {type_name(spec)}")
    root = ComputedFields()
    for path, value in spec.items():
        _add(name, root, split_path(path), value, context)

    return AddedFields(root, context).applied_to


class AddedFields:
    """Sets computed fields; all others stay in place."""

    __slots__ = ("_context", "_fields")

    def __init__(self, fields: ComputedFields, context: StageContext) -> None:
        self._fields = fields
        self._context = context

    def applied_to(self, document: Document) -> Document:
        return self._fields.set_in(document, self._context.environment(document))


def _add(
    name: str, root: ComputedFields, components: tuple[str, ...], value: Any, context: StageContext
) -> None:
    if isinstance(value, Mapping) and not value:
        path = ".".join(components)
        raise CommandError(40180, f"Invalid {name}: an empty object is not a valid value, at '{path}'")
    if isinstance(value, Mapping) and not any(key.startswith("$") for key in value):
        for key, item in value.items():
            if "." in key:
                raise CommandError(40183, f"{name}: '{key}' in a nested document may not contain a '.'")
            _add(name, root, (*components, *split_path(key)), item, context)
        return
    if isinstance(value, Mapping) and len(value) > 1:
        raise CommandError(
            40181, f"{name}: an expression must be the only field of its object, found: {list(value)}"
        )
    fields = root
    for component in components[:-1]:
        below = fields.fields.setdefault(component, ComputedFields())
        if not isinstance(below, ComputedFields):
            raise _conflict(name, components)
        fields = below
    if components[-1] in fields.fields:
        raise _conflict(name, components)
    fields.fields[components[-1]] = context.parse(value)


def _conflict(name: str, components: tuple[str, ...]) -> CommandError:
    path = ".".join(components)
    return CommandError(40176, f"{name} specification contains two conflicting paths, one of them '{path}'")
