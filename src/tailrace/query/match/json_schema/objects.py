"""Keywords for objects; other values pass."""

from collections.abc import Mapping
from typing import Any

from tailrace.query.match.json_schema.keyword import (
    Keyword,
    checked_names,
    checked_object,
    failed_to_parse,
    only_for,
    size_limit,
    type_mismatch,
)
from tailrace.query.paths import Test
from tailrace.query.pcre import compile_pattern


def parse_properties(keyword: Keyword) -> Test:
    """``properties``: a schema for each field, if the field exists."""
    schemas = {name: keyword.subschema(schema) for name, schema in checked_object(keyword).items()}
    return only_for(
        dict, lambda document: all(test(document[name]) for name, test in schemas.items() if name in document)
    )


def parse_pattern_properties(keyword: Keyword) -> Test:
    """``patternProperties``: a schema for all fields with a name that the pattern matches."""
    schemas = [
        (compile_pattern(pattern, "").search, keyword.subschema(schema))
        for pattern, schema in checked_object(keyword).items()
    ]
    return only_for(
        dict,
        lambda document: all(
            test(value) for name, value in document.items() for search, test in schemas if search(name)
        ),
    )


def parse_additional_properties(keyword: Keyword) -> Test:
    """``additionalProperties``: whether fields without their own schema are allowed, or their schema."""
    if isinstance(keyword.argument, bool):
        allowed = keyword.argument
        test: Test = lambda _value: allowed  # noqa: E731 - shorter than a function
    elif isinstance(keyword.argument, Mapping):
        test = keyword.subschema(keyword.argument)
    else:
        raise type_mismatch("$jsonSchema keyword 'additionalProperties' must be an object or a boolean")
    named = _names(keyword.schema.get("properties"))
    searches = [compile_pattern(name, "").search for name in _names(keyword.schema.get("patternProperties"))]

    def is_additional(name: str) -> bool:
        return name not in named and not any(search(name) for search in searches)

    return only_for(
        dict, lambda document: all(test(value) for name, value in document.items() if is_additional(name))
    )


def _names(schemas: Any) -> frozenset[str]:
    # If this is no object, its own keyword is refused.
    return frozenset(schemas) if isinstance(schemas, Mapping) else frozenset()


def parse_required(keyword: Keyword) -> Test:
    """``required``: fields that must exist."""
    names = checked_names("keyword 'required'", keyword.argument)
    return only_for(dict, lambda document: all(name in document for name in names))


def parse_size(keyword: Keyword) -> Test:
    """``minProperties`` and ``maxProperties``."""
    return size_limit(keyword, dict)


def parse_dependencies(keyword: Keyword) -> Test:
    """``dependencies``: other fields or a schema that an object with a field must have."""
    dependencies = [
        (name, _dependency(keyword, dependency)) for name, dependency in checked_object(keyword).items()
    ]
    return only_for(
        dict, lambda document: all(test(document) for name, test in dependencies if name in document)
    )


def _dependency(keyword: Keyword, dependency: Any) -> Test:
    if isinstance(dependency, Mapping):
        return keyword.compile(dependency)
    if not isinstance(dependency, list):
        raise failed_to_parse("$jsonSchema keyword 'dependencies' must hold schemas and arrays of names")
    names = checked_names("keyword 'dependencies'", dependency)
    return lambda document: all(name in document for name in names)
