"""``arrayFilters``: which elements a ``$[<identifier>]`` selects.

A filter is a query whose paths all start with one identifier; it is matched against
``{<identifier>: <element>}``. Every filter must be used by some path, every identifier must have one filter.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import CompileOptions
from tailrace.mongod.language.update.path import is_array_filter
from tailrace.mongod.language.update.query_features import check_features
from tailrace.query.match import compile_match

_IDENTIFIER: Final = re.compile(r"[a-z][a-zA-Z0-9]*\Z")
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})


@dataclass(frozen=True, slots=True)
class ArrayFilter:
    """A compiled filter."""

    identifier: str
    matcher: Callable[[dict[str, Any]], bool]

    def matches(self, element: Any) -> bool:
        return self.matcher({self.identifier: element})


def compile_array_filters(specs: Iterable[Any], options: CompileOptions) -> dict[str, ArrayFilter]:
    """The filters by identifier."""
    filters: dict[str, ArrayFilter] = {}
    for spec in specs:
        if not isinstance(spec, Mapping):
            message = f"an array filter must be an object, not {type_name(spec)}"
            raise CommandError(ErrorCode.TypeMismatch, message)
        check_features(spec)
        matcher = compile_match(spec, variables=options.variables, collation=options.collation)
        identifier = _identifier_of(spec)
        if identifier in filters:
            message = f"more than one array filter has the top-level field name {identifier!r}"
            raise CommandError(ErrorCode.FailedToParse, message)
        filters[identifier] = ArrayFilter(identifier, matcher)
    return filters


def _identifier_of(spec: Mapping[str, Any]) -> str:
    names = list(dict.fromkeys(_top_level_names(spec)))
    if not names:
        message = "an array filter needs an expression with a top-level field name"
        raise CommandError(ErrorCode.FailedToParse, message)
    if len(names) > 1:
        message = (
            f"an array filter must have a single top-level field name, found {names[0]!r} and {names[1]!r}"
        )
        raise CommandError(ErrorCode.FailedToParse, message)
    if not _IDENTIFIER.match(names[0]):
        message = f"an array filter's name must be alphanumeric and begin in lower case, found {names[0]!r}"
        raise CommandError(ErrorCode.BadValue, message)
    return names[0]


def _top_level_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for name, value in spec.items():
        if name in _LOGICAL and isinstance(value, list):
            for clause in value:
                if isinstance(clause, Mapping):
                    yield from _top_level_names(clause)
        elif not name.startswith("$"):
            yield name.split(".")[0]


def used_identifiers(components: tuple[str, ...], filters: Mapping[str, ArrayFilter]) -> set[str]:
    """The identifiers in a path; raises if one has no filter."""
    used = {component[2:-1] for component in filter(is_array_filter, components)} - {""}
    for identifier in used:
        if identifier not in filters:
            path = ".".join(components)
            message = f"No array filter found for identifier '{identifier}' in path '{path}'"
            raise CommandError(ErrorCode.BadValue, message)
    return used


def check_all_used(unused: set[str]) -> None:
    """Refuse a filter that no path uses."""
    if unused:
        message = f"The array filter for identifier {min(unused)!r} was not used in the update"
        raise CommandError(ErrorCode.FailedToParse, message)
