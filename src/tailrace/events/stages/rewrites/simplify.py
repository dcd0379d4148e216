"""Filters without the parts that decide nothing, as a server simplifies them while it moves them.

A filter that nothing passes no longer reads any field, and it never moves.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from tailrace.query.match.scope import is_operator_document

Filter: TypeAlias = Mapping[str, Any]
_NEVER: Final = "$alwaysFalse"


def simplified(condition: Filter) -> dict[str, Any]:
    """A filter that passes the same; an empty one passes everything.

    >>> simplified({"$or": [{"a": {"$all": []}}, {"b": 1, "$and": [{}]}]})
    {'b': 1}
    >>> simplified({"a": 1, "$nor": [{"b": 1}, {}]})
    {'$alwaysFalse': 1}
    """
    parts = [part for name, value in condition.items() if (part := _part(name, value))]
    if any(_NEVER in part for part in parts):
        return {_NEVER: 1}
    return parts[0] if len(parts) == 1 else {"$and": parts} if parts else {}


def _part(name: str, value: Any) -> dict[str, Any]:
    if name == "$and":
        kept = [part for part in map(simplified, value) if part]
        if any(_NEVER in part for part in kept):
            return {_NEVER: 1}
        return kept[0] if len(kept) == 1 else {name: kept} if kept else {}
    if name == "$or":
        kept = [part for part in map(simplified, value) if _NEVER not in part]
        if not all(kept):
            return {}
        return kept[0] if len(kept) == 1 else {name: kept} if kept else {_NEVER: 1}
    if name == "$nor":
        # A single condition is negated before it is simplified.
        passes_nothing = len(value) > 1 and not all(map(simplified, value))
        return (
            {_NEVER: 1} if passes_nothing else {name: [simplified(part) or _always(part) for part in value]}
        )
    if name in ("$alwaysTrue", "$comment") or (name == "$jsonSchema" and not any(_properties(value))):
        return {}
    if not name.startswith("$") and is_operator_document(value) and value.get("$all") == []:
        return {_NEVER: 1}
    return {name: value}


def _always(condition: Filter) -> Filter:
    """What a server makes of a condition that everything passes: only an empty conjunction can still move."""
    return {"$alwaysTrue": 1} if "$or" in condition or "$alwaysTrue" in condition else {}


def _properties(schema: Mapping[str, Any]) -> Iterable[Any]:
    """The conditions on properties, if the schema has nothing else."""
    return schema["properties"].values() if schema.keys() == {"properties"} else (schema,)
