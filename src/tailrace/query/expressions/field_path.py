"""Field paths in expressions: ``a.b.c``.

Unlike in a query, a number in a path is a field name and never an array index. A path goes through arrays: it
collects the values of all documents that are elements, and skips those that lack the field.
"""

from functools import lru_cache
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.missing import MISSING

_MAX_COMPONENTS: Final = 200
_OF_REFERENCES: Final = frozenset({"$db", "$id", "$ref"})
"""The fields of a DBRef."""


@lru_cache(maxsize=4096)
def split_path(path: str) -> tuple[str, ...]:
    """The components of a path; a malformed path raises `CommandError`.

    >>> split_path("a.b")
    ('a', 'b')
    """
    if not path:
        raise CommandError(40352, "FieldPath cannot be constructed with empty string")
    if path.endswith("."):
        raise CommandError(40353, f"FieldPath must not end with a '.': '{path}'")
    components = tuple(path.split("."))
    for component in components:
        check_field_name(component)
    if len(components) > _MAX_COMPONENTS:
        raise CommandError(ErrorCode.Overflow, f"FieldPath is longer than {_MAX_COMPONENTS} components")
    return components


def check_field_name(name: str) -> None:
    """Refuse a name that cannot be a component of a path."""
    if not name:
        raise CommandError(15998, "FieldPath field names may not be empty strings")
    if name.startswith("$") and name not in _OF_REFERENCES:
        raise CommandError(16410, f"FieldPath field names may not start with '$', found '{name}'")
    if "\0" in name:
        raise CommandError(16411, f"FieldPath field names may not contain a null byte, found {name!r}")
    if "." in name:
        raise CommandError(16412, f"FieldPath field names may not contain '.', found '{name}'")


def walk(value: Any, components: tuple[str, ...]) -> Any:
    """The value at a path.

    >>> walk({"a": [{"b": 1}, {"c": 2}, 3, {"b": 4}]}, ("a", "b"))
    [1, 4]
    >>> walk({"a": [5]}, ("a", "0"))
    []
    """
    for index, name in enumerate(components):
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list):
            rest = components[index:]
            found = (walk(item, rest) for item in value if isinstance(item, dict))
            return [item for item in found if item is not MISSING]
        else:
            return MISSING
    return value
