"""The grammar of filters: documents of fields and top-level operators, and documents of field operators.

    filter     {<path>: <value or operators>, <top-level operator>: <argument>, ...}   all must match
    operators  {<operator>: <argument>, ...}                                           all must hold

A document is one of operators if its first field starts with ``$``, unless it is a DBRef (``$ref`` and
``$id``). Which operators there are is not said here: the `Scope` is given two tables of parsers, so that an
operator with filters or operators inside (``$or``, ``$elemMatch``, ``$not``) parses them with the scope it
is handed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from bson import Regex

from tailrace.bson.compare import StringKey
from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.scope import Collating
from tailrace.query.match.nodes import Condition, Conjunction, Node, ValueCondition, conjunction
from tailrace.query.match.value_tests import equality_test, regex_test
from tailrace.query.paths import Path


class Operation(NamedTuple):
    """An operator as it stands in a filter."""

    name: str
    argument: Any
    siblings: Mapping[str, Any]
    """The whole document it stands in."""


FieldOperator: TypeAlias = Callable[[Operation, "Scope"], Condition | None]
"""Parses an operator on a field; None if it says nothing about the value (``$options``)."""
TopOperator: TypeAlias = Callable[[Operation, "Scope"], Node | None]
"""Parses an operator that stands beside fields; None if it says nothing about the document (``$comment``)."""


def bad_value(message: str) -> CommandError:
    """The error for most of what can be wrong with a filter."""
    return CommandError(ErrorCode.BadValue, message)


def refuse_undefined(value: Any) -> None:
    """Nothing can be compared with undefined; ``$type`` finds it."""
    if isinstance(value, Undefined):
        raise bad_value("cannot compare to undefined")


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a filter stands: which operators it may use, which variables, and how strings compare."""

    field_operators: Mapping[str, FieldOperator]
    top_operators: Mapping[str, TopOperator]
    variables: Mapping[str, Any]
    collation: Collating | None = None
    in_element: bool = False
    """Whether the filter is about elements of an array, where some top-level operators are refused."""

    @property
    def string_key(self) -> StringKey:
        """What strings are compared by, or None for their code points."""
        return None if self.collation is None else self.collation.string_key

    def of_element(self) -> "Scope":
        """The scope inside a ``$elemMatch``."""
        return replace(self, in_element=True)

    def filter(self, spec: Mapping[str, Any]) -> Node:
        """The node for a filter."""
        nodes = []
        for name, value in spec.items():
            if name.startswith("$"):
                node = self._top_operator(Operation(name, value, spec))
                if node is not None:
                    nodes.append(node)
            else:
                nodes.append(self._field_condition(value).at(Path(name)))
        return conjunction(nodes)

    def operators(self, spec: Mapping[str, Any]) -> Condition:
        """The condition for a document of operators."""
        conditions = []
        for name, argument in spec.items():
            parser = self.field_operators.get(name)
            if parser is None:
                raise bad_value(f"unknown operator: {name}")
            condition = parser(Operation(name, argument, spec), self)
            if condition is not None:
                conditions.append(condition)
        return conditions[0] if len(conditions) == 1 else Conjunction(conditions)

    def value(self, value: Any) -> Condition:
        """The condition for a value that a field is compared with: a regex searches, others must be equal."""
        if isinstance(value, Regex):
            return ValueCondition(regex_test(value))
        return self.equality(value, self.string_key)

    def equality(self, value: Any, string_key: StringKey) -> Condition:
        """The condition that a field equals a value, or that an array has it as an element."""
        refuse_undefined(value)
        return ValueCondition(equality_test(value, string_key))

    def _field_condition(self, value: Any) -> Condition:
        return self.operators(value) if is_operator_document(value) else self.value(value)

    def _top_operator(self, operation: Operation) -> Node | None:
        parser = self.top_operators.get(operation.name)
        if parser is None:
            raise bad_value(
                f"unknown top level operator: {operation.name}. If you have a field name that starts "
                "with a '$' symbol, use $getField in an $expr"
            )
        return parser(operation, self)


def is_operator_document(value: Any, *, part_of_reference_suffices: bool = False) -> bool:
    """Whether a value in a filter is a document of operators rather than a value to compare with.

    >>> is_operator_document({"$gt": 1}), is_operator_document({"a": 1}), is_operator_document({})
    (True, False, False)
    >>> is_operator_document({"$ref": "c", "$id": 1}), is_operator_document({"$id": 1})
    (False, True)
    """
    if not isinstance(value, Mapping) or not next(iter(value), "").startswith("$"):
        return False
    if part_of_reference_suffices:
        return not any(name in value for name in ("$ref", "$id", "$db"))
    return not ("$ref" in value and "$id" in value)
