"""Explain which keywords of a `$jsonSchema` a value violates."""

from collections.abc import Mapping
from typing import Any, Final

from bson import Int64

from tailrace.bson.compare import equal, type_name
from tailrace.query.match.json_schema import compile_schema
from tailrace.query.pcre import compile_pattern

_REASONS: Final = {
    "type": "type did not match",
    "bsonType": "type did not match",
    "minimum": "comparison failed",
    "maximum": "comparison failed",
    "multipleOf": "considered value is not a multiple of the specified value",
    "minLength": "specified string length was not satisfied",
    "maxLength": "specified string length was not satisfied",
    "pattern": "regular expression did not match",
    "enum": "value was not found in enum",
    "minItems": "array did not match specified length",
    "maxItems": "array did not match specified length",
    "uniqueItems": "found a duplicate item",
    "encrypt": "value was not encrypted",
    "not": "child expression matched",
}
_WITH_NEIGHBOURS: Final = {
    "minimum": ("exclusiveMinimum",),
    "maximum": ("exclusiveMaximum",),
    "additionalProperties": ("properties", "patternProperties"),
    "additionalItems": ("items",),
}
"""Keywords that depend on other keywords of the same schema."""
_ON_NUMBERS: Final = ("multipleOf", "maximum", "minimum")
_ON_STRINGS: Final = ("pattern", "maxLength", "minLength")
_ON_ARRAYS: Final = ("minItems", "maxItems", "uniqueItems", "items", "additionalItems")
_ON_OBJECTS: Final = (
    "properties", "additionalProperties", "patternProperties", "required", "minProperties", "maxProperties",
    "dependencies",
)  # fmt: skip
_KINDS: Final = (
    (_ON_NUMBERS, frozenset({"number", "int", "long", "double", "decimal"})),
    (_ON_STRINGS, frozenset({"string"})),
    (_ON_ARRAYS, frozenset({"array"})),
    (_ON_OBJECTS, frozenset({"object"})),
)
"""Keywords on values of some types"""
_ORDER: Final = (
    *_ON_NUMBERS, *_ON_STRINGS, *_ON_ARRAYS, *_ON_OBJECTS,
    "allOf", "anyOf", "oneOf", "not", "enum", "type", "bsonType",
)  # fmt: skip
"""The order in which a server shows keywords"""
_NO_RULE: Final = frozenset(
    {"exclusiveMinimum", "exclusiveMaximum", "title", "description", "encryptMetadata"}
)
"""Keywords that are no rules."""


def schema_details(schema: Mapping[str, Any], value: Any) -> list[dict[str, Any]]:
    """One entry for each keyword that the value violates.

    >>> schema_details({"required": ["a", "b"], "maxProperties": 5}, {"a": 1})
    [{'operatorName': 'required', 'specifiedAs': {'required': ['a', 'b']}, 'missingProperties': ['b']}]
    """
    return [
        _details(name, schema[name], schema, value)
        for name in sorted(schema, key=_place)
        if name not in _NO_RULE and _applies(name, schema) and not _holds(name, schema[name], schema, value)
    ]


def _place(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _applies(name: str, schema: Mapping[str, Any]) -> bool:
    """Whether a keyword has an effect: one on other types than the schema allows has none."""
    declared = schema.get("bsonType", schema.get("type"))
    kinds = next((kinds for names, kinds in _KINDS if name in names), None)
    if declared is None or kinds is None:
        return True
    return not kinds.isdisjoint([declared] if isinstance(declared, str) else declared)


def _holds(name: str, argument: Any, schema: Mapping[str, Any], value: Any) -> bool:
    part = {name: argument}
    for neighbour in _WITH_NEIGHBOURS.get(name, ()):
        if neighbour in schema:
            part[neighbour] = schema[neighbour]
    if name in ("additionalProperties", "additionalItems"):
        # The other keywords define what is additional; their own violations have their own entries.
        part = {key: _anything(key, spec) if key != name else spec for key, spec in part.items()}
    return compile_schema(part)(value)


def _anything(name: str, spec: Any) -> Any:
    if name == "items":
        return [{} for _ in spec] if isinstance(spec, list) else {}
    return {key: {} for key in spec}


def _details(name: str, argument: Any, schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    if name == "properties":
        return {"operatorName": name, "propertiesNotSatisfied": _properties(argument, value)}
    if name in ("allOf", "anyOf", "oneOf"):
        return _combination(name, argument, value)
    if name == "items":
        return _items(argument, value)
    if name == "not":
        return {"operatorName": name, "reason": _REASONS[name]}
    if name == "dependencies":
        return {"operatorName": name, "failingDependencies": _failing_dependencies(argument, value)}
    if name == "patternProperties":
        return {"operatorName": name, "details": _pattern_properties(argument, value)}
    if isinstance(argument, Mapping) and name in ("additionalProperties", "additionalItems"):
        return _first_additional(name, argument, schema, value)
    details: dict[str, Any] = {"operatorName": name, "specifiedAs": {name: argument}}
    for neighbour in ("exclusiveMinimum", "exclusiveMaximum"):
        if neighbour in schema and neighbour in _WITH_NEIGHBOURS.get(name, ()):
            details["specifiedAs"][neighbour] = schema[neighbour]
    if name == "required":
        return {**details, "missingProperties": [field for field in argument if field not in value]}
    if name == "additionalProperties":
        return {**details, "additionalProperties": _additional(argument, schema, value)}
    if name in ("minProperties", "maxProperties"):
        reason = "specified number of properties was not satisfied"
        return {**details, "reason": reason, "numberOfProperties": len(value)}
    if name == "additionalItems":
        return {
            **details,
            "reason": "found additional items",
            "additionalItems": value[len(schema["items"]) :],
        }
    details |= {"reason": _REASONS.get(name, "schema did not match"), "consideredValue": value}
    if name in ("type", "bsonType"):
        details["consideredType"] = type_name(value)
    elif name in ("minItems", "maxItems"):
        details["numberOfItems"] = len(value)
    elif name == "uniqueItems":
        details["duplicatedValue"] = next(
            item for index, item in enumerate(value) if any(equal(item, other) for other in value[:index])
        )
    return details


def _first_additional(
    name: str, argument: Mapping[str, Any], schema: Mapping[str, Any], value: Any
) -> dict[str, Any]:
    """The first property or item that is additional and does not fit its schema."""
    if name == "additionalProperties":
        place: Any = _additional(argument, schema, value)[0]
        shown = {
            "reason": "at least one additional property did not match the subschema",
            "failingProperty": place,
        }
    else:
        fits, start = compile_schema(argument), len(schema["items"])
        place = next(index for index in range(start, len(value)) if not fits(value[index]))
        shown = {"reason": "At least one additional item did not match the sub-schema", "itemIndex": place}
    return {"operatorName": name, **shown, "details": schema_details(argument, value[place])}


def _property(name: str, schema: Mapping[str, Any], value: Any) -> dict[str, Any]:
    shown = {key: schema[key] for key in ("title", "description") if key in schema}
    return {"propertyName": name, **shown, "details": schema_details(schema, value)}


def _properties(schemas: Mapping[str, Any], value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        _property(name, schema, value[name])
        for name, schema in schemas.items()
        if name in value and not compile_schema(schema)(value[name])
    ]


def _pattern_properties(schemas: Mapping[str, Any], value: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"propertyName": name, "regexMatched": pattern, "details": schema_details(schema, value[name])}
        for pattern, schema in schemas.items()
        for name in value
        if compile_pattern(pattern, "").search(name) and not compile_schema(schema)(value[name])
    ]


def _additional(argument: Any, schema: Mapping[str, Any], value: Mapping[str, Any]) -> list[str]:
    patterns = [compile_pattern(pattern, "") for pattern in schema.get("patternProperties", {})]
    fits = compile_schema(argument) if isinstance(argument, Mapping) else None
    return [
        name
        for name, item in value.items()
        if name not in schema.get("properties", {})
        and not any(pattern.search(name) for pattern in patterns)
        and (fits is None or not fits(item))
    ]


def _failing_dependencies(dependencies: Mapping[str, Any], value: Mapping[str, Any]) -> list[dict[str, Any]]:
    failing: list[dict[str, Any]] = []
    for name, dependency in dependencies.items():
        if name not in value:
            continue
        if isinstance(dependency, Mapping):
            details = schema_details(dependency, value)
            if details:
                failing.append({"conditionalProperty": name, "details": details})
        else:
            missing = [other for other in dependency if other not in value]
            if missing:
                failing.append({"conditionalProperty": name, "missingProperties": missing})
    return failing


def _combination(name: str, schemas: list[Mapping[str, Any]], value: Any) -> dict[str, Any]:
    matching = [index for index, schema in enumerate(schemas) if compile_schema(schema)(value)]
    if name == "oneOf" and matching:
        reason = "more than one subschema matched"
        return {"operatorName": name, "reason": reason, "matchingSchemaIndexes": matching}
    failed = [
        {"index": index, "details": schema_details(schema, value)}
        for index, schema in enumerate(schemas)
        if index not in matching
    ]
    return {"operatorName": name, "schemasNotSatisfied": failed}


def _items(argument: Any, value: list[Any]) -> dict[str, Any]:
    schemas = [argument] * len(value) if isinstance(argument, Mapping) else argument
    failed: list[dict[str, Any]] = [
        {"itemIndex": index, "details": schema_details(schema, item)}
        for index, (schema, item) in enumerate(zip(schemas, value, strict=False))
        if not compile_schema(schema)(item)
    ]
    if not isinstance(argument, Mapping):
        numbered = [{**details, "itemIndex": Int64(details["itemIndex"])} for details in failed]
        return {"operatorName": "items", "details": numbered}
    return {
        "operatorName": "items",
        "reason": "At least one item did not match the sub-schema",
        **failed[0],
    }
