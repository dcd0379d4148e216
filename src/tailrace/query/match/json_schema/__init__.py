"""``$jsonSchema``: JSON Schema draft 4 with MongoDB's additions and omissions.

>>> matches = compile_schema({"required": ["qty"], "properties": {"qty": {"bsonType": "int", "minimum": 1}}})
>>> matches({"qty": 3}), matches({"qty": 0}), matches({})
(True, False, False)

Unlike a path in a query, a schema does not test the elements of arrays instead of the array. Most keywords
apply to one type; values of other types pass. MongoDB adds ``bsonType``, ``encrypt`` and ``encryptMetadata``;
it lacks ``$ref $schema default definitions format id`` and the type "integer".
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.query.match.evaluation import refuse_in_element
from tailrace.query.match.json_schema import arrays, enums, logic, objects, scalars, types
from tailrace.query.match.json_schema.keyword import Keyword, KeywordParser, failed_to_parse, type_mismatch
from tailrace.query.match.nodes import DocumentPredicate, Node, every
from tailrace.query.match.scope import FilterScope, OperatorCall
from tailrace.query.paths import Test

__all__ = ["compile_schema", "parse_json_schema"]

_KEYWORDS: Final[Mapping[str, KeywordParser]] = {
    "additionalItems": arrays.parse_additional_items,
    "additionalProperties": objects.parse_additional_properties,
    "allOf": logic.parse_combination,
    "anyOf": logic.parse_combination,
    "bsonType": types.parse_bson_type,
    "dependencies": objects.parse_dependencies,
    "description": scalars.parse_annotation,
    "encrypt": types.parse_encrypt,
    "encryptMetadata": types.parse_encrypt_metadata,
    "enum": enums.parse_enum,
    "exclusiveMaximum": scalars.parse_exclusive,
    "exclusiveMinimum": scalars.parse_exclusive,
    "items": arrays.parse_items,
    "maxItems": arrays.parse_size,
    "maxLength": scalars.parse_length,
    "maxProperties": objects.parse_size,
    "maximum": scalars.parse_limit,
    "minItems": arrays.parse_size,
    "minLength": scalars.parse_length,
    "minProperties": objects.parse_size,
    "minimum": scalars.parse_limit,
    "multipleOf": scalars.parse_multiple_of,
    "not": logic.parse_not,
    "oneOf": logic.parse_combination,
    "pattern": scalars.parse_pattern,
    "patternProperties": objects.parse_pattern_properties,
    "properties": objects.parse_properties,
    "required": objects.parse_required,
    "title": scalars.parse_annotation,
    "type": types.parse_type,
    "uniqueItems": arrays.parse_unique_items,
}
_KNOWN_BUT_UNSUPPORTED: Final = frozenset({"$ref", "$schema", "default", "definitions", "format", "id"})


def parse_json_schema(call: OperatorCall, scope: FilterScope) -> Node:
    """``$jsonSchema``: the document matches a schema."""
    refuse_in_element(call, scope)
    if not isinstance(call.argument, Mapping):
        raise type_mismatch("$jsonSchema must be an object")
    return DocumentPredicate(compile_schema(call.argument))


def compile_schema(schema: Mapping[str, Any]) -> Test:
    """A test for values that a schema allows."""
    tests = []
    for name, argument in schema.items():
        if name in _KNOWN_BUT_UNSUPPORTED:
            raise failed_to_parse(f"$jsonSchema keyword '{name}' is not currently supported")
        parser = _KEYWORDS.get(name)
        if parser is None:
            raise failed_to_parse(f"Unknown $jsonSchema keyword: {name}")
        test = parser(Keyword(name, argument, schema, compile_schema))
        if test is not None:
            tests.append(test)
    return every(tests)
