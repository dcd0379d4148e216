"""`$match`: the documents that match a filter."""

from collections.abc import Mapping
from typing import Any

from tailrace.errors import CommandError
from tailrace.query.match import compile_match
from tailrace.query.reshape.stage import Document, Stage, StageContext


def compile_match_stage(name: str, spec: Any, context: StageContext) -> Stage:
    if not isinstance(spec, Mapping):
        raise CommandError(15959, "the match filter must be an expression in an object")
    if "$text" in spec:
        raise CommandError(17313, f"{name} with $text is only allowed as the first pipeline stage")
    matches = compile_match(
        spec,
        variables=context.variables,
        collation=context.collation,
        dialect=context.dialect,
        in_order=not context.is_query,
    )

    def apply(document: Document) -> Document | None:
        return document if matches(document) else None

    return apply
