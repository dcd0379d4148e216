"""Computed fields in a tree of paths: what `$addFields` is, and the second half of `$project`.

Every field is computed from the document as it came in. A path goes through arrays: the fields are then set
in every element, and an element that is no document is replaced by one.
"""

from typing import Any

from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING


class ComputedFields:
    """The fields of one document: each an expression, or a tree for the document below."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[str, Expression | ComputedFields] = {}

    def set_in(self, document: dict[str, Any], env: Environment) -> None:
        """Set all fields in place, in the order they were written; a missing value takes a field away."""
        for name, field in self.fields.items():
            if isinstance(field, ComputedFields):
                document[name] = field.applied_to(document.get(name, MISSING), env)
                continue
            value = field(env)
            if value is MISSING:
                document.pop(name, None)
            else:
                document[name] = value

    def applied_to(self, value: Any, env: Environment) -> Any:
        """The value with the fields set, inside every element if it is an array."""
        if isinstance(value, list):
            return [self.applied_to(item, env) for item in value]
        document = dict(value) if isinstance(value, dict) else {}
        self.set_in(document, env)
        return document
