"""The grammar of filters: documents of fields and top-level operators, and documents of field operators.

    filter     {<path>: <value or operators>, <top-level operator>: <argument>, ...}   all must match
    operators  {<operator>: <argument>, ...}                                           all must hold

A document is one of operators if its first field starts with ``$``, unless it is a DBRef (``$ref`` and
``$id``). The `FilterScope` gets the operators as two tables of parsers; the parser of an operator with nested
filters or operators (``$or``, ``$elemMatch``, ``$not``) parses them with the scope it is called with.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from bson import Regex

from tailrace.bson.compare import StringKey
from tailrace.bson.values import Undefined
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.pacing import tick
from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions.scope import Collating
from tailrace.query.match.nodes import Condition, Conjunction, Node, ValueCondition, conjunction
from tailrace.query.match.value_tests import equality_test, regex_test
from tailrace.query.paths import Path


class OperatorCall(NamedTuple):
    """The use of an operator in a filter."""

    name: str
    argument: Any
    siblings: Mapping[str, Any]
    """The document that contains the operator."""


FieldOperatorParser: TypeAlias = Callable[[OperatorCall, "FilterScope"], Condition | None]
"""Parses an operator on a field; None if it adds no condition (``$options``)."""
TopOperatorParser: TypeAlias = Callable[[OperatorCall, "FilterScope"], Node | None]
"""Parses an operator beside fields; None if it adds no condition (``$comment``)."""


def bad_value(message: str) -> CommandError:
    return CommandError(ErrorCode.BadValue, message)


def refuse_undefined(value: Any) -> None:
    """Refuse a comparison with undefined; only ``$type`` finds it."""
    if isinstance(value, Undefined):
        raise bad_value("cannot compare to undefined")


@dataclass(frozen=True, slots=True)
class FilterScope:
    """Parses filters with these operators, variables and string order."""

    field_operators: Mapping[str, FieldOperatorParser]
    top_operators: Mapping[str, TopOperatorParser]
    variables: Mapping[str, Any]
    collation: Collating | None = None
    dialect: Dialect = CURRENT_DIALECT
    in_element: bool = False
    """Whether the filter is inside ``$elemMatch``, where some top-level operators are refused."""

    @property
    def string_key(self) -> StringKey:
        """The function for the sort key of a string; None to compare code points."""
        return None if self.collation is None else self.collation.string_key

    def of_element(self) -> "FilterScope":
        """The scope inside a ``$elemMatch``."""
        return replace(self, in_element=True)

    def filter(self, spec: Mapping[str, Any]) -> Node:
        """The node for a filter."""
        nodes = []
        for name, value in spec.items():
            tick()
            if name.startswith("$"):
                node = self._top_operator(OperatorCall(name, value, spec))
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
            condition = parser(OperatorCall(name, argument, spec), self)
            if condition is not None:
                conditions.append(condition)
        return conditions[0] if len(conditions) == 1 else Conjunction(conditions)

    def value(self, value: Any) -> Condition:
        """The condition for a bare value: a regex searches, other values must be equal."""
        if isinstance(value, Regex):
            return ValueCondition(regex_test(value))
        return self.equality(value, self.string_key)

    def equality(self, value: Any, string_key: StringKey) -> Condition:
        """The condition that a field equals a value, or is an array with an equal element."""
        refuse_undefined(value)
        return ValueCondition(
            equality_test(value, string_key, undefined_is_null=self.dialect.undefined_is_null)
        )

    def _field_condition(self, value: Any) -> Condition:
        return self.operators(value) if is_operator_document(value) else self.value(value)

    def _top_operator(self, call: OperatorCall) -> Node | None:
        parser = self.top_operators.get(call.name)
        if parser is None:
            raise bad_value(
                f"unknown top level operator: {call.name}. If you have a field name that starts "
                "with a '$' symbol, consider using $getField or $setField."
            )
        return parser(call, self)


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
