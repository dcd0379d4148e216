"""`$project`: some fields of a document and computed fields; or a document without some fields.

A projection either includes or excludes, except for ``_id``, which is included unless it is excluded.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.expressions.field_path import split_path
from tailrace.query.expressions.operands import is_number, is_truthy, type_name
from tailrace.query.expressions.operators import OPERATORS
from tailrace.query.expressions.scope import unknown_expression
from tailrace.query.reshape.computed import NOT_COMPUTED
from tailrace.query.reshape.path_tree import PathTree
from tailrace.query.reshape.projection_tree import Exclusion, Inclusion, Projection
from tailrace.query.reshape.stage import Document, Stage, StageContext

_ID: Final = ("_id",)
_INCLUSION, _EXCLUSION = "inclusion", "exclusion"


def compile_project(name: str, spec: Any, context: StageContext) -> Stage:
    if not isinstance(spec, Mapping):
        raise CommandError(15969, f"{name} specification must be an object, not {type_name(spec)}")
    if not spec:
        raise CommandError(51272, f"Invalid {name}: projection specification must have at least one field")
    paths: Projection = PathTree()
    kind = None
    keeps_id = None
    for components, value in _flattened(name, spec, ()):
        if not isinstance(value, bool) and not is_number(value):
            _check_expression(name, components, value, kind)
            kind = _INCLUSION
            paths.add(components, context.parse(value))
            continue
        paths.add(components, NOT_COMPUTED)
        if components == _ID:
            keeps_id = is_truthy(value)
        else:
            kind = _agreed(components, _INCLUSION if is_truthy(value) else _EXCLUSION, kind)
    if kind is None:
        kind = _INCLUSION if keeps_id else _EXCLUSION
    if keeps_id is not None and keeps_id != (kind == _INCLUSION):
        # Without a path, an inclusion leaves _id out and an exclusion keeps it.
        del paths.entries["_id"]
    if kind == _EXCLUSION:
        return Exclusion(paths).applied_to
    if keeps_id is None and "_id" not in paths.entries:
        paths.add(_ID, NOT_COMPUTED)
    inclusion = Inclusion(paths, keeps_places=context.reads_whole)

    def apply(document: Document) -> Document:
        return inclusion.project(document, context.environment(document))

    return apply


def _flattened(
    name: str, spec: Mapping[str, Any], prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Full paths with their values; a nested document is a path unless it is an operator."""
    for key, value in spec.items():
        if key.endswith(".$") or ".$." in key:
            raise CommandError(
                31324, f"Invalid {name}: no positional projection in an aggregation, found '{key}'"
            )
        components = (*prefix, *split_path(key))
        if not isinstance(value, Mapping):
            yield components, value
        elif not value:
            path = ".".join(components)
            raise CommandError(
                51270, f"Invalid {name}: an empty sub-projection is not a valid value, at '{path}'"
            )
        elif next(iter(value)).startswith("$"):
            yield components, value
        else:
            yield from _flattened(name, value, components)


def _agreed(components: tuple[str, ...], wanted: str, kind: str | None) -> str:
    if kind is not None and kind != wanted:
        code = 31253 if wanted == _INCLUSION else 31254
        path = ".".join(components)
        raise CommandError(code, f"Cannot do {wanted} on field {path} in {kind} projection")
    return wanted


def _check_expression(name: str, components: tuple[str, ...], value: Any, kind: str | None) -> None:
    is_operator = isinstance(value, Mapping)
    if is_operator and "$elemMatch" in value:
        raise CommandError(168, f"Invalid {name}: Cannot use $elemMatch in this context")
    if is_operator and next(iter(value)) not in OPERATORS:
        reason = unknown_expression(next(iter(value)), "Unknown expression {}")
        raise CommandError(31325, f"Invalid {name}: {reason}")
    if kind == _EXCLUSION:
        path = ".".join(components)
        code = 31252 if is_operator else 31310
        raise CommandError(code, f"Cannot use an expression for {path} in an exclusion projection")
