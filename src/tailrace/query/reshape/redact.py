"""`$redact`: an expression decides which parts of a document remain.

The expression is evaluated for the document first, with field paths relative to it. ``$$KEEP`` keeps all of
it, ``$$PRUNE`` drops all of it, ``$$DESCEND`` evaluates the expression for every document inside, also in
arrays.
"""

from typing import Any, Final

from tailrace.errors import CommandError
from tailrace.query.expressions.operands import type_name
from tailrace.query.missing import MISSING
from tailrace.query.reshape.stage import Document, Stage, StageContext

# In MongoDB, too, the values of these variables are strings.
_DECISIONS: Final = {"KEEP": "keep", "PRUNE": "prune", "DESCEND": "descend"}


def compile_redact(name: str, spec: Any, context: StageContext) -> Stage:
    decide = context.parse(spec, more_variables=_DECISIONS)

    def redacted(part: Document, root: Document) -> Any:
        decision = decide({**context.environment(root), **_DECISIONS, "CURRENT": part})
        if decision == _DECISIONS["KEEP"]:
            return part
        if decision == _DECISIONS["PRUNE"]:
            return MISSING
        if decision == _DECISIONS["DESCEND"]:
            inside = {key: redacted_value(value, root) for key, value in part.items()}
            return {key: value for key, value in inside.items() if value is not MISSING}
        raise CommandError(
            17053,
            f"{name}'s expression should not return anything aside from the variables $$KEEP, $$DESCEND, and "
            f"$$PRUNE, but returned a value of type {type_name(decision)}",
        )

    def redacted_value(value: Any, root: Document) -> Any:
        if isinstance(value, dict):
            return redacted(value, root)
        if isinstance(value, list):
            items = [redacted_value(item, root) for item in value]
            return [item for item in items if item is not MISSING]
        return value

    def apply(document: Document) -> Document | None:
        result = redacted(document, document)
        return result if isinstance(result, dict) else None

    return apply
