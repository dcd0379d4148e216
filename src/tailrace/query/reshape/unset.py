"""`$unset`: removes fields from a document."""

from typing import Any

from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.field_path import split_path
from tailrace.query.reshape.computed import NOT_COMPUTED
from tailrace.query.reshape.path_tree import PathTree
from tailrace.query.reshape.projection_tree import Exclusion, Projection
from tailrace.query.reshape.stage import Stage, StageContext


def compile_unset(name: str, spec: Any, _: StageContext) -> Stage:
    """Compile the stage, with one path or an array of paths."""
    paths = [spec] if is_string(spec) else spec
    if not isinstance(paths, list):
        raise CommandError(31002, f"{name} specification must be a string or an array")
    if not paths:
        raise CommandError(
            31119, f"{name} specification must be a string or an array with at least one field"
        )
    excluded: Projection = PathTree()
    for path in paths:
        if not is_string(path):
            raise CommandError(
                31120, f"{name} specification must be a string or an array containing only string values"
            )
        excluded.add(split_path(path), NOT_COMPUTED)
    return Exclusion(excluded).applied_to
