"""`$jsonSchema` as the conditions that a server makes of it, so that those that can move do.

What a schema requires and combines become ordinary conditions. Other keywords stay parts of a schema, each on
its own; of these only a property with nothing but `enum` moves.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Filter: TypeAlias = Mapping[str, Any]
_WITHOUT_EFFECT: Final = frozenset({"title", "description"})
_MOVING: Final = frozenset({"enum", *_WITHOUT_EFFECT})
_SCHEMA: Final = "$jsonSchema"


def without_schemas(condition: Filter) -> dict[str, Any]:
    """A filter that passes the same events.

    >>> without_schemas({"$jsonSchema": {"required": ["to"], "not": {"required": ["ns"]}}})
    {'$and': [{'to': {'$exists': True}}, {'$nor': [{'ns': {'$exists': True}}]}]}
    """
    found: dict[str, Any] = {}
    for name, value in condition.items():
        if name in ("$and", "$or", "$nor"):
            found[name] = [without_schemas(part) for part in value]
        elif name != _SCHEMA:
            found[name] = value
    if _SCHEMA not in condition:
        return found
    parts = _conditions(condition[_SCHEMA])
    lowered = parts[0] if len(parts) == 1 else {"$and": parts} if parts else {}
    if not found:
        return lowered
    return {"$and": [found, lowered]} if lowered else found


def moves(schema: Filter) -> bool:
    """Whether what is left of a schema can move."""
    properties = schema.get("properties", {}).values()
    return schema.keys() == {"properties"} and all(one.keys() <= _MOVING for one in properties)


def _conditions(schema: Filter) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for keyword, value in schema.items():
        if keyword == "required":
            found += [{path: {"$exists": True}} for path in value]
        elif keyword == "properties":
            found += [_property(path, one) for path, one in value.items()]
        elif keyword in ("bsonType", "type"):
            kinds = value if isinstance(value, list) else [value]
            found += [] if "object" in kinds else [{"$alwaysFalse": 1}]
        elif keyword in ("anyOf", "allOf") or (keyword == "oneOf" and len(value) == 1):
            name = "$and" if keyword == "allOf" else "$or"
            found.append({name: [without_schemas({_SCHEMA: part}) for part in value]})
        elif keyword == "not":
            found.append({"$nor": [without_schemas({_SCHEMA: value})]})
        elif keyword not in _WITHOUT_EFFECT:
            found.append({_SCHEMA: {keyword: value}})
    return found


def _property(path: str, schema: Filter) -> dict[str, Any]:
    if schema == {"not": {}}:  # no value is allowed
        return {path: {"$exists": False}}
    return {_SCHEMA: {"properties": {path: schema}}}
