"""Dotted paths of update operators: parse, check and order them."""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.paths import array_index

POSITIONAL: Final = "$"
_DB_REF_NAMES: Final = frozenset({"$ref", "$id", "$db"})
_LONGEST_INDEX: Final = 20


def parse_path(path: str) -> tuple[str, ...]:
    """The components of a path that an operator may write to.

    >>> parse_path("a.$[e].b.0")
    ('a', '$[e]', 'b', '0')
    """
    components = split_update_path(path)
    first = components[0]
    if first == POSITIONAL or is_array_filter(first):
        message = f"the positional element {first!r} cannot come first in the path {path!r}"
        raise CommandError(ErrorCode.BadValue, message)
    if components.count(POSITIONAL) > 1:
        raise CommandError(ErrorCode.BadValue, f"the path {path!r} has more than one positional element '$'")
    check_top_level_name(first)
    return components


def split_update_path(path: str) -> tuple[str, ...]:
    """The components of a path; raises EmptyFieldName if one is empty."""
    if not path:
        raise CommandError(ErrorCode.EmptyFieldName, "an update path cannot be empty")
    components = tuple(path.split("."))
    if "" in components:
        raise CommandError(ErrorCode.EmptyFieldName, f"the update path {path!r} has an empty component")
    return components


def check_top_level_name(name: str) -> None:
    """Refuse a top-level field that starts with a dollar sign."""
    if name.startswith("$") and name not in _DB_REF_NAMES:
        message = f"the field {name!r} starts with a dollar sign, which a top-level field must not"
        raise CommandError(ErrorCode.DollarPrefixedFieldName, message)


def is_array_filter(component: str) -> bool:
    """Whether a component is ``$[]`` or ``$[<identifier>]``."""
    return component.startswith("$[") and component.endswith("]")


def element_index(name: str) -> int | None:
    """The array index in a component, which may have more digits than in a query; None if it is not one."""
    return array_index(name, _LONGEST_INDEX)


def processing_order(name: str) -> tuple[int, int, str, str]:
    """A key that sorts names as update operators process them: numbers by value, then text.

    >>> sorted(["b", "10", "9", "a"], key=processing_order)
    ['9', '10', 'a', 'b']
    """
    if name.isascii() and name.isdigit():
        digits = name.lstrip("0")
        return 0, len(digits), digits, name
    return 1, 0, name, ""
