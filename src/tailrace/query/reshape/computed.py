"""Computed fields in a tree of paths, for `$addFields` and `$project`.

Every field is computed from the input document. A path goes through arrays: the fields are set in every
element, and an element that is not a document is replaced by one.
"""

from typing import Any

from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING


class ComputedFields:
    """The fields of one document: each an expression, or the fields of a nested document."""

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[str, Expression | ComputedFields] = {}

    def set_in(self, document: dict[str, Any], env: Environment) -> None:
        """Set all fields in place, in the order of the specification; a missing value removes a field."""
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
