"""`$replaceRoot` and `$replaceWith`: replace the document by another."""

from collections.abc import Mapping
from typing import Any

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.operands import type_name
from tailrace.query.reshape.stage import Document, Stage, StageContext


def compile_replace_root(name: str, spec: Any, context: StageContext) -> Stage:
    """Compile ``{$replaceRoot: {newRoot: <expression>}}``."""
    if not isinstance(spec, Mapping):
        raise CommandError(
            40229, f"expected an object as specification for {name} stage, got {type_name(spec)}"
        )
    for key in spec:
        if key != "newRoot":
            raise CommandError(ErrorCode.IDLUnknownField, f"BSON field '{name}.{key}' is an unknown field.")
    if "newRoot" not in spec:
        raise CommandError(
            ErrorCode.IDLFailedToParse, f"BSON field '{name}.newRoot' is missing but a required field"
        )
    return compile_replace_with(name, spec["newRoot"], context)


def compile_replace_with(_: str, spec: Any, context: StageContext) -> Stage:
    """Compile ``{$replaceWith: <expression>}``."""
    new_root = context.parse(spec)

    def apply(document: Document) -> Document:
        result = new_root(context.environment(document))
        if not isinstance(result, dict):
            raise CommandError(
                40228,
                "'newRoot' expression must evaluate to an object, but resulting value was of type "
                f"{type_name(result)}",
            )
        return result

    return apply
