"""Checks of stage specifications: known fields, types and names."""

from collections.abc import Collection, Mapping
from typing import Any

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.operands import type_name


def checked_fields(
    name: str,
    spec: Any,
    *,
    required: Collection[str] = (),
    optional: Collection[str] = (),
    not_object: int = ErrorCode.FailedToParse,
) -> Mapping[str, Any]:
    """The fields of a specification; raises for unknown and for missing required fields."""
    if not isinstance(spec, Mapping):
        raise CommandError(
            not_object, f"the {name} stage specification must be an object, but found {type_name(spec)}"
        )
    for field in spec:
        if field not in required and field not in optional:
            raise CommandError(ErrorCode.IDLUnknownField, f"BSON field '{name}.{field}' is an unknown field.")
    for field in required:
        if field not in spec:
            raise CommandError(
                ErrorCode.IDLFailedToParse, f"BSON field '{name}.{field}' is missing but a required field"
            )
    return spec


def checked_text(path: str, value: Any) -> str:
    if not is_string(value):
        raise wrong_type(path, value, "string")
    return value


def checked_array(path: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise wrong_type(path, value, "array")
    return value


def checked_object(path: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong_type(path, value, "object")
    return value


def wrong_type(path: str, value: Any, expected: str) -> CommandError:
    """The error for a field of the wrong type."""
    return CommandError(
        ErrorCode.TypeMismatch,
        f"BSON field '{path}' is the wrong type '{type_name(value)}', expected type '{expected}'",
    )


def checked_collection(database: str, name: str) -> str:
    """Check the name of a collection."""
    if not name or name.startswith(".") or "\0" in name:
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid namespace specified '{database}.{name}'")
    return name
