"""Checks of a document before it is stored after an update."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.compare import equal, type_name
from tailrace.bson.shell_notation import shell
from tailrace.bson.values import Undefined, is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import Path, dotted

_DB_REF_NAMES: Final = frozenset({"$ref", "$id", "$db"})
MAX_DEPTH: Final = 180
"""The nesting limit of stored documents; the rest up to BSON's 200 is for the messages around them."""


def check_depth(value: Any, depth: int, path: Path = ()) -> None:
    """Refuse a value that is nested too deeply; ``depth`` is its own depth in the document."""
    if depth > MAX_DEPTH:
        message = f"the document exceeds the maximum nesting depth of {MAX_DEPTH} at {dotted(path)[:80]!r}"
        raise CommandError(ErrorCode.Overflow, message)
    if isinstance(value, Mapping):
        for inner in value.values():
            check_depth(inner, depth + 1, path)
    elif isinstance(value, list):
        for inner in value:
            check_depth(inner, depth + 1, path)


def check_id(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Refuse an update that changes or removes ``_id``, or adds one that cannot be stored."""
    if "_id" in before:
        if "_id" not in after or not equal(before["_id"], after["_id"]):
            message = "After applying the update, the (immutable) field '_id' was found to have been "
            message += f"altered to _id: {shell(after['_id'])}" if "_id" in after else "removed"
            raise CommandError(ErrorCode.ImmutableField, message)
    elif "_id" in after:
        check_new_id(after["_id"])


def check_no_array_id(document: Mapping[str, Any]) -> None:
    """Refuse a whole document to insert whose ``_id`` is an array."""
    if isinstance(document.get("_id"), list):
        message = (
            "After applying the update to the document, the (immutable) field '_id' was found to be an array "
            "or array descendant."
        )
        raise CommandError(ErrorCode.NotSingleValueField, message)


def check_new_id(value: Any) -> None:
    """Refuse a value that cannot be an ``_id``."""
    if isinstance(value, list | Regex | Undefined):
        message = f"the '_id' value cannot be of type {type_name(value)}"
        raise CommandError(ErrorCode.InvalidIdField, message)
    if isinstance(value, Mapping):
        for name in value:
            if name.startswith("$"):
                message = f"_id fields may not contain '$'-prefixed fields, found {name!r}"
                raise CommandError(ErrorCode.DollarPrefixedFieldName, message)


def check_dollar_names(document: dict[str, Any], names: Iterable[str]) -> None:
    """Refuse those of the names, top-level fields of the document, that start with a dollar sign.

    Allowed is a DBRef: `$ref`, then `$id`, then perhaps `$db`. Inserted documents may have any names.
    """
    for name in names:
        if name.startswith("$"):
            _check_dollar_name(document, name)


def _check_dollar_name(document: dict[str, Any], name: str) -> None:
    if name not in _DB_REF_NAMES:
        message = (
            f"The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an "
            "update's replacement document. Consider using an aggregation pipeline with $replaceWith."
        )
        raise CommandError(ErrorCode.DollarPrefixedFieldName, message)
    fields = list(document)
    place = fields.index(name)
    problem = None
    if name != "$id" and not is_string(document[name]):
        problem = f"The DBRef {name} field must be a String, not a {type_name(document[name])}"
    elif name == "$ref" and fields[place + 1 : place + 2] != ["$id"]:
        problem = "The DBRef $ref field must be followed by a $id field"
    elif name != "$ref":
        before = "$ref" if name == "$id" else "$id"
        if fields[place - 1] != before:
            problem = f"Found {name} field without a {before} before it, which is invalid."
    if problem is not None:
        raise CommandError(ErrorCode.InvalidDBRef, problem)


def with_id_first(document: dict[str, Any]) -> dict[str, Any]:
    """The document with ``_id`` as its first field, as it is stored.

    >>> with_id_first({"a": 1, "_id": 2})
    {'_id': 2, 'a': 1}
    """
    if "_id" not in document or next(iter(document)) == "_id":
        return document
    return {"_id": document["_id"], **document}
