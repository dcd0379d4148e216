"""Computed fields in a tree of paths, for `$addFields` and `$project`.

Every field is computed from the input document. A path goes through arrays: the fields are set in every
element, and an element that is not a document is replaced by one.
"""

from typing import Any, Final

from tailrace.query.expressions import Environment, Expression
from tailrace.query.missing import MISSING
from tailrace.query.placed import PlacedDocument, elements_of, in_places, places_of

NOT_COMPUTED: Final = None
"""In the place of an expression: a field that is included or excluded, not computed"""


class ComputedFields:
    """The fields of one document: each an expression, or the fields of a nested document.

    `NOT_COMPUTED` stands for a field that only gets a place.
    """

    __slots__ = ("fields",)

    def __init__(self) -> None:
        self.fields: dict[str, Expression | ComputedFields | None] = {}

    def set_in(self, document: dict[str, Any], env: Environment) -> dict[str, Any]:
        """The document with all fields set, in the order of the specification.

        A missing value removes a field; its place remains.
        """
        result = dict(document)
        places = places_of(document) if isinstance(document, PlacedDocument) else None
        for name, field in self.fields.items():
            if isinstance(field, ComputedFields):
                value = field.applied_to(result.get(name, MISSING), env)
            elif field is NOT_COMPUTED:
                value = result.get(name, MISSING)
            else:
                value = field(env)
            if value is MISSING and places is None:
                places = list(result)
            if places is not None and name not in places:
                places.append(name)
            if value is MISSING:
                result.pop(name, None)
            else:
                result[name] = value
        return result if places is None else in_places(result, places)

    def applied_to(self, value: Any, env: Environment) -> Any:
        """The value with the fields set, inside every element if it is an array."""
        if isinstance(value, list):
            return [self.applied_to(item, env) for item in elements_of(value)]
        return self.set_in(value if isinstance(value, dict) else {}, env)
