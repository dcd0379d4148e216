"""Conditions of a filter that every matching document meets, by field.

>>> conditions_of({"a": 1, "$and": [{"a": {"$lt": 5}}, {"b": "x"}], "$or": [{"c": 1}, {"d": 2}]})
{'a': [('$eq', 1), ('$lt', 5)], 'b': [('$eq', 'x')]}
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

from tailrace.pacing import ticking
from tailrace.query.match.scope import is_operator_document

Condition: TypeAlias = tuple[str, Any]
"""An operator and its argument"""


def conditions_of(filter: Mapping[str, Any]) -> dict[str, list[Condition]]:  # noqa: A002 - MongoDB's name
    """The conditions that all matching documents meet, by path; those inside ``$or`` are left out."""
    found: dict[str, list[Condition]] = {}
    _collect(filter, found)
    return found


def _collect(filter: Mapping[str, Any], found: dict[str, list[Condition]]) -> None:  # noqa: A002
    for name, value in filter.items():
        if name == "$and" and isinstance(value, list):
            for part in ticking(value):
                if isinstance(part, Mapping):
                    _collect(part, found)
        elif not name.startswith("$"):
            conditions = found.setdefault(name, [])
            if is_operator_document(value):
                conditions.extend(value.items())
            else:
                conditions.append(("$eq", value))
