"""Build the document that an upsert starts from, from the equalities of its query.

`{a: 1, "b.c": {$eq: 2}, d: {$gt: 3}}` gives `{a: 1, b: {c: 2}}`. A replacement uses only the `_id`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from bson import Regex

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.match.scope import is_operator_document


def document_of_query(query: Mapping[str, Any], *, is_replacement: bool) -> dict[str, Any]:
    """The document of a query's equalities.

    >>> document_of_query({"a": 1, "$and": [{"b.c": {"$eq": 2}}, {"d": {"$gt": 3}}]}, is_replacement=False)
    {'a': 1, 'b': {'c': 2}}
    """
    document: dict[str, Any] = {}
    if is_replacement:
        found = [(path, value) for path, value in _equalities(query) if path.split(".")[0] == "_id"]
        if any(path != "_id" for path, _ in found):
            reason = "field at '_id' must be exactly specified, field at sub-path was found"
            raise CommandError(ErrorCode.NotExactValueField, reason)
    else:
        found = list(_equalities(query))
    for path, value in found:
        _put(document, path, value)
    return document


def _equalities(query: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in query.items():
        if name == "$and" or (name == "$or" and isinstance(value, list) and len(value) == 1):
            for clause in value:
                yield from _equalities(clause)
        elif not name.startswith("$"):
            yield from ((name, found) for found in _equal_values(value))


def _equal_values(value: Any) -> Iterator[Any]:
    if not is_operator_document(value):
        if not isinstance(value, Regex):
            yield value
        return
    for operator, operand in value.items():
        if operator == "$eq":
            yield operand
        elif operator == "$all" or (operator == "$in" and len(operand) == 1):
            for value in operand:
                if not (isinstance(value, Regex) or is_operator_document(value)):
                    yield value


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    if not path:
        raise CommandError(ErrorCode.IllegalOperation, "Cannot call setValue on the root object")
    *parents, last = path.split(".")
    inner: Any = document
    for name in parents:
        inner = inner.setdefault(name, {})
        if not isinstance(inner, dict):
            raise _matched_twice(path)
    if last in inner:
        raise _matched_twice(path)
    inner[last] = value


def _matched_twice(path: str) -> CommandError:
    reason = f"cannot infer query fields to set, path '{path}' is matched twice"
    return CommandError(ErrorCode.NotSingleValueField, reason)
