"""``$and $or $nor`` beside fields, ``$not`` on a field."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bson import Regex

from tailrace.query.match.nodes import AnyOf, Condition, Negation, Node, conjunction, none_of
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value

_COMBINATIONS: Final[dict[str, Callable[[Sequence[Node]], Node]]] = {
    "$and": conjunction,
    "$or": AnyOf,
    "$nor": none_of,
}


def parse_combination(call: OperatorCall, scope: FilterScope) -> Node:
    """``$and $or $nor``: an array of filters."""
    name, clauses, _ = call
    if not isinstance(clauses, list):
        raise bad_value(f"{name} must be an array")
    if not clauses:
        raise bad_value("$and/$or/$nor must be a nonempty array")
    for clause in clauses:
        if not isinstance(clause, Mapping):
            raise bad_value(f"{name} argument's entries must be objects")
    return _COMBINATIONS[name]([scope.filter(clause) for clause in clauses])


def parse_not(call: OperatorCall, scope: FilterScope) -> Condition:
    """``$not``: a regex, or a document of operators."""
    argument = call.argument
    if isinstance(argument, Regex):
        return Negation(scope.value(argument))
    if not isinstance(argument, Mapping):
        raise bad_value("$not needs a regex or a document")
    if not argument:
        raise bad_value("$not cannot be empty")
    return Negation(scope.operators(argument))
