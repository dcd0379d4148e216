"""Read and write a field in nested documents, without going through arrays.

Writing copies the documents along the path; the given document is not changed.
"""

from typing import Any

from tailrace.mongod.language.aggregation.rows import Document
from tailrace.query.missing import MISSING
from tailrace.query.placed import with_field


def get_nested(document: Document, components: tuple[str, ...]) -> Any:
    """The value at a path; `MISSING` if there is none.

    >>> get_nested({"a": {"b": [1]}}, ("a", "b")), get_nested({"a": [{"b": 1}]}, ("a", "b"))
    ([1], MISSING)
    """
    value: Any = document
    for name in components:
        if not isinstance(value, dict):
            return MISSING
        value = value.get(name, MISSING)
    return value


def set_nested(document: Document, components: tuple[str, ...], value: Any) -> Document:
    """The document with a value at a path; values on the path that are not documents are replaced.

    >>> set_nested({"a": {"x": 1}, "b": 2}, ("a", "y"), 3), set_nested({"a": 1}, ("a", "b"), 2)
    ({'a': {'x': 1, 'y': 3}, 'b': 2}, {'a': {'b': 2}})
    """
    name, *rest = components
    if rest:
        below = document.get(name)
        value = set_nested(below if isinstance(below, dict) else {}, tuple(rest), value)
    return with_field(document, name, value)


def without_nested(document: Document, components: tuple[str, ...]) -> Document:
    """The document without the field at a path.

    >>> without_nested({"a": {"b": 1, "c": 2}}, ("a", "b"))
    {'a': {'c': 2}}
    """
    name, *rest = components
    if not rest:
        return with_field(document, name, MISSING)
    below = document.get(name)
    if not isinstance(below, dict):
        return document
    return with_field(document, name, without_nested(below, tuple(rest)))
