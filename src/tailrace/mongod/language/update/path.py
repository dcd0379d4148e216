"""Dotted paths of update operators: parse, check and order them."""

from functools import cmp_to_key
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

POSITIONAL: Final = "$"
_LONGEST_INDEX: Final = 10
_HIGHEST_INDEX: Final = 2**32 - 1


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
    return components


def split_update_path(path: str) -> tuple[str, ...]:
    """The components of a path; raises EmptyFieldName if one is empty."""
    if not path:
        raise CommandError(ErrorCode.EmptyFieldName, "An empty update path is not valid.")
    components = tuple(path.split("."))
    if "" in components:
        reason = f"The update path {path!r} contains an empty field name, which is not allowed."
        raise CommandError(ErrorCode.EmptyFieldName, reason)
    return components


def is_array_filter(component: str) -> bool:
    """Whether a component is ``$[]`` or ``$[<identifier>]``."""
    return component.startswith("$[") and component.endswith("]")


def element_index(name: str) -> int | None:
    """The array index in a component, which unlike in a query may begin with zeros; None if it is not one."""
    if not (name.isascii() and name.isdigit()):
        return None
    digits = name.lstrip("0") or "0"
    index = int(digits) if len(digits) <= _LONGEST_INDEX else _HIGHEST_INDEX + 1
    return index if index <= _HIGHEST_INDEX else None


def _compare(left: str, right: str) -> int:
    if _is_canonical(left) and _is_canonical(right) and len(left) != len(right):
        return len(left) - len(right)
    return (left > right) - (left < right)


def _is_canonical(name: str) -> bool:
    return name.isascii() and name.isdigit() and (name[0] != "0" or name == "0")


processing_order: Final = cmp_to_key(_compare)
"""A key that sorts names as update operators process them: two numbers by value, everything else as text.

>>> sorted(["b", "10", "9", "a", " "], key=processing_order)
[' ', '9', '10', 'a', 'b']
"""
