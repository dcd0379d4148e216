"""Operators on documents, and the sizes of documents and binary data.

In the field names of `$getField`, `$setField` and `$unsetField`, dots and dollars have no meaning.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.bson.documents import encode
from tailrace.bson.values import is_string
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import named_specs, parse_list, unary
from tailrace.query.expressions.operands import is_nullish, type_name
from tailrace.query.expressions.scope import (
    Constant,
    Environment,
    Expression,
    ExpressionScope,
    OperatorParser,
)
from tailrace.query.missing import MISSING
from tailrace.query.placed import with_field


def _parse_get_field(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    if isinstance(spec, Mapping) and not next(iter(spec), "").startswith("$"):
        specs = named_specs(
            name, spec, required={"field": 3041702, "input": 3041703}, not_object=3041701, unknown=3041701
        )
        field, source = scope.parse(specs["field"]), scope.parse(specs["input"])
    else:
        field, source = scope.parse(spec), scope.parse("$$CURRENT")
    if isinstance(field, Constant):
        _checked_name(name, field.value)

    def get(env: Environment) -> Any:
        key, document = _checked_name(name, field(env)), source(env)
        if isinstance(document, dict):
            return document.get(key, MISSING)
        return None if is_nullish(document) and document is not MISSING else MISSING

    return get


def _checked_name(name: str, value: Any) -> str:
    if not is_string(value):
        raise CommandError(
            3041704, f"{name} requires 'field' to evaluate to type String, but got {type_name(value)}"
        )
    return value


def _parse_set_field(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    required = {"field": 4161102, "value": 4161103, "input": 4161109}
    specs = named_specs(name, spec, required=required, not_object=4161100, unknown=4161101)
    return _set_field(name, specs, scope.parse(specs["value"]), scope)


def _parse_unset_field(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    required = {"field": 4161102, "input": 4161109}
    specs = named_specs(name, spec, required=required, not_object=4161100, unknown=4161101)
    return _set_field(name, specs, Constant(MISSING), scope)


def _set_field(name: str, specs: Mapping[str, Any], value: Expression, scope: ExpressionScope) -> Expression:
    key = _constant_name(name, specs["field"], scope)
    source = scope.parse(specs["input"])

    def apply(env: Environment) -> dict[str, Any] | None:
        document = source(env)
        if is_nullish(document):
            return None
        if not isinstance(document, dict):
            raise CommandError(4161105, f"{name} requires 'input' to evaluate to type Object")
        return with_field(document, key, value(env))

    return apply


def _constant_name(name: str, spec: Any, scope: ExpressionScope) -> str:
    if is_string(spec) and spec.startswith("$"):
        raise CommandError(
            4161108, f"'field' of {name} may not be a path, found '{spec}'; use $literal for the name"
        )
    if isinstance(spec, Mapping) and next(iter(spec), "") not in ("$literal", "$const"):
        raise CommandError(4161106, f"{name} requires 'field' to be a constant")
    field = scope.parse(spec)
    if not (isinstance(field, Constant) and is_string(field.value)):
        raise CommandError(4161107, f"{name} requires 'field' to evaluate to a constant of type String")
    return field.value


def _parse_merge_objects(name: str, spec: Any, scope: ExpressionScope) -> Expression:
    expressions = parse_list(spec, scope)

    def merge(env: Environment) -> dict[str, Any]:
        documents = [expression(env) for expression in expressions]
        if len(documents) == 1 and isinstance(documents[0], list):
            documents = documents[0]
        result: dict[str, Any] = {}
        for document in documents:
            if is_nullish(document):
                continue
            if not isinstance(document, dict):
                raise CommandError(40400, f"{name} requires object inputs, but found {type_name(document)}")
            result.update(document)
        return result

    return merge


def binary_size(value: Any) -> int | None:
    """The number of bytes of binary data, or of a string in UTF-8."""
    if is_nullish(value):
        return None
    if isinstance(value, bytes):
        return len(value)
    if is_string(value):
        return len(value.encode())
    raise CommandError(51276, f"$binarySize requires a string or BinData argument, found: {type_name(value)}")


def bson_size(value: Any) -> int | None:
    """The number of bytes of a document as BSON."""
    if is_nullish(value):
        return None
    if not isinstance(value, dict):
        raise CommandError(31393, f"$bsonSize requires a document input, found: {type_name(value)}")
    return len(encode(value))


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$binarySize": unary(binary_size),
    "$bsonSize": unary(bson_size),
    "$getField": _parse_get_field,
    "$mergeObjects": _parse_merge_objects,
    "$setField": _parse_set_field,
    "$unsetField": _parse_unset_field,
}
