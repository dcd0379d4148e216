"""Explain why a document fails validation: the field `errInfo.details` of the error.

The rules are a filter. Each part that does not match is shown with its operator, its specification, the
reason and the values considered; a logical operator shows the clauses that failed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bson import Regex

from tailrace.bson.compare import type_name
from tailrace.mongod.server.writes.validation.schema_details import schema_details
from tailrace.query.collation import Collation
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.match import compile_match
from tailrace.query.match.scope import is_operator_document
from tailrace.query.missing import MISSING
from tailrace.query.paths import Path

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_SATISFIED: Final = "clausesSatisfied"
_NOT_SATISFIED: Final = "clausesNotSatisfied"
_NUMBERS: Final = ("decimal", "double", "int", "long")
_BITS: Final = ("binData", *_NUMBERS)
_COMPARED: Final = ("comparison failed", "comparison succeeded")
_BITWISE: Final = ("bitwise operator failed to match", "bitwise operator matched successfully")
_REASONS: Final[Mapping[str, tuple[str, str]]] = {
    "$ne": _COMPARED[::-1],
    "$in": ("no matching value found in array", "matching value found in array"),
    "$nin": ("matching value found in array", "no matching value found in array"),
    "$type": ("type did not match", "type did match"),
    "$regex": ("regular expression did not match", "regular expression did match"),
    "$size": ("array length was not equal to given size", "array length was equal to given size"),
    "$mod": ("$mod did not evaluate to expected remainder", "$mod did evaluate to expected remainder"),
    "$elemMatch": ("array did not satisfy the child predicate", "array did satisfy the child predicate"),
    "$all": ("array did not contain all specified values", "array did contain all specified values"),
    "$bitsAllSet": _BITWISE,
    "$bitsAllClear": _BITWISE,
    "$bitsAnySet": _BITWISE,
    "$bitsAnyClear": _BITWISE,
}
"""Why an operator did not match, and why it did where it should not; others are comparisons"""
_EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "$regex": ("regex", "string", "symbol"),
    "$mod": _NUMBERS,
    "$bitsAllSet": _BITS,
    "$bitsAllClear": _BITS,
    "$bitsAnySet": _BITS,
    "$bitsAnyClear": _BITS,
    "$size": ("array",),
    "$elemMatch": ("array",),
}
"""Types of values that an operator can match"""
_WHOLE_ARRAYS: Final = frozenset({"$size", "$elemMatch", "$all"})
"""Operators that consider an array as such; others consider its elements"""


def validation_details(
    rules: Mapping[str, Any],
    document: dict[str, Any],
    *,
    variables: Mapping[str, Any],
    collation: Collation | None,
) -> dict[str, Any]:
    """The rules that a document violates."""
    return _Explainer(document, variables, collation).filter(rules)


class _Explainer:
    """Explains filters that do not match one document."""

    def __init__(
        self, document: dict[str, Any], variables: Mapping[str, Any], collation: Collation | None
    ) -> None:
        self._document = document
        self._variables = variables
        self._collation = collation

    def filter(self, rules: Mapping[str, Any], *, matched: bool = False) -> dict[str, Any]:
        """Why a filter does not match, or, with ``matched``, why it does where it should not."""
        clauses = list(self._clauses(rules))
        if len(clauses) == 1:
            return self._clause(*clauses[0], matched=matched)
        return self._logical("$and", [{name: value} for name, value in clauses], matched=matched)

    def _logical(self, name: str, clauses: list[Any], *, matched: bool) -> dict[str, Any]:
        details = [
            {"index": index, "details": self.filter(clause, matched=matched)}
            for index, clause in enumerate(clauses)
            if self._matches(clause) == matched
        ]
        return {"operatorName": name, _SATISFIED if matched else _NOT_SATISFIED: details}

    def _clauses(self, rules: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """The parts of a filter, with the operators of a field separated."""
        for name, value in rules.items():
            if name == "$comment":
                continue
            if not name.startswith("$") and is_operator_document(value) and len(value) > 1:
                for operator, operand in value.items():
                    if operator == "$options":
                        continue
                    options = (
                        {"$options": value["$options"]}
                        if operator == "$regex" and "$options" in value
                        else {}
                    )
                    yield name, {operator: operand, **options}
            else:
                yield name, value

    def _clause(self, name: str, value: Any, *, matched: bool) -> dict[str, Any]:
        if name == "$jsonSchema":
            shown = {key: value[key] for key in ("title", "description") if key in value}
            rules = schema_details(value, self._document)
            return {"operatorName": name, **shown, "schemaRulesNotSatisfied": rules}
        if name in _LOGICAL:
            return self._logical(name, value, matched=matched != (name == "$nor"))
        if name == "$expr":
            return self._expression(value, matched=matched)
        if name.startswith("$"):
            return {"operatorName": name, "specifiedAs": {name: value}, "reason": "expression did not match"}
        return self._field(name, value, matched=matched)

    def _expression(self, spec: Any, *, matched: bool) -> dict[str, Any]:
        expression = parse_expression(spec, variables=frozenset(self._variables), collation=self._collation)
        result = expression(environment(self._document, self._variables))
        return {
            "operatorName": "$expr",
            "specifiedAs": {"$expr": spec},
            "reason": "expression did match" if matched else "expression did not match",
            "expressionResult": None if result is MISSING else result,
        }

    def _field(self, path: str, condition: Any, *, matched: bool) -> dict[str, Any]:
        if is_operator_document(condition):
            operator, operand = next(iter(condition.items()))
        elif isinstance(condition, Regex):
            operator, operand = "$regex", condition
        else:
            operator, operand = "$eq", condition
        if operator == "$not":
            return {"operatorName": "$not", "details": self.filter({path: operand}, matched=not matched)}
        details: dict[str, Any] = {"operatorName": operator, "specifiedAs": {path: condition}}
        if operator == "$exists":
            is_there = bool(operand) == matched
            return {**details, "reason": "path does exist" if is_there else "path does not exist"}
        found = [
            value
            for value, _ in Path(path).values(self._document, into_last_array=False)
            if value is not MISSING
        ]
        if not found:
            return {**details, "reason": "field was missing"}
        return {**details, **_considered(operator, found, matched=matched)}

    def _matches(self, clause: Mapping[str, Any]) -> bool:
        matches = compile_match(clause, variables=self._variables, collation=self._collation)
        return matches(self._document)


def _considered(operator: str, found: list[Any], *, matched: bool) -> dict[str, Any]:
    """The reason, and the values that an operator has considered."""
    values = found
    if operator not in _WHOLE_ARRAYS:
        values = [item for value in found for item in (value if isinstance(value, list) else [value])]
    shown = {"consideredValue": values[0]} if len(values) == 1 else {"consideredValues": values}
    names = sorted({type_name(value) for value in values})
    types: dict[str, Any] = {}
    if names:
        types = {"consideredType": names[0]} if len(names) == 1 else {"consideredTypes": names}
    expected = _EXPECTED.get(operator)
    if expected is not None and not matched and not any(name in expected for name in names):
        wanted = {"expectedType": expected[0]} if len(expected) == 1 else {"expectedTypes": list(expected)}
        return {"reason": _REASONS["$type"][0], **types, **wanted, **shown}
    reason = _REASONS.get(operator, _COMPARED)[matched]
    return {"reason": reason, **shown, **(types if operator == "$type" else {})}
