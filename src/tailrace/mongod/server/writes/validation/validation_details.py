"""Explain why a document fails validation: the field `errInfo.details` of the error.

The rules are a filter. Each part that does not match is shown with its operator, its specification, the
reason and the values considered; a logical operator shows the clauses that failed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tailrace.mongod.server.writes.validation.schema_details import schema_details
from tailrace.query.collation import Collation
from tailrace.query.expressions import environment, parse_expression
from tailrace.query.match import compile_match
from tailrace.query.match.scope import is_operator_document
from tailrace.query.missing import MISSING
from tailrace.query.paths import Path

_REASONS: Final = {
    "$in": "no matching value found in array",
    "$nin": "matching value found in array",
    "$type": "type did not match",
    "$regex": "regular expression did not match",
    "$size": "array length was not equal to given size",
    "$mod": "$mod did not evaluate to expected remainder",
    "$elemMatch": "array did not satisfy the child predicate",
    "$all": "array did not contain all specified values",
    "$bitsAllSet": "bitwise operator failed to match",
    "$bitsAllClear": "bitwise operator failed to match",
    "$bitsAnySet": "bitwise operator failed to match",
    "$bitsAnyClear": "bitwise operator failed to match",
}
_CLAUSES_NOT_SATISFIED: Final = frozenset({"$and", "$or"})


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

    def filter(self, rules: Mapping[str, Any]) -> dict[str, Any]:
        clauses = list(self._clauses(rules))
        if len(clauses) == 1:
            return self._clause(*clauses[0])
        failed = [
            {"index": index, "details": self._clause(name, value)}
            for index, (name, value) in enumerate(clauses)
            if not self._matches({name: value})
        ]
        return {"operatorName": "$and", "clausesNotSatisfied": failed}

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

    def _clause(self, name: str, value: Any) -> dict[str, Any]:
        if name == "$jsonSchema":
            shown = {key: value[key] for key in ("title", "description") if key in value}
            rules = schema_details(value, self._document)
            return {"operatorName": name, **shown, "schemaRulesNotSatisfied": rules}
        if name in _CLAUSES_NOT_SATISFIED:
            failed = [
                {"index": index, "details": self.filter(clause)}
                for index, clause in enumerate(value)
                if not self._matches(clause)
            ]
            return {"operatorName": name, "clausesNotSatisfied": failed}
        if name == "$nor":
            passed = [
                {"index": index, "details": {"specifiedAs": clause, "reason": "clause matched"}}
                for index, clause in enumerate(value)
                if self._matches(clause)
            ]
            return {"operatorName": name, "clausesSatisfied": passed}
        if name == "$expr":
            return self._expression(value)
        if name.startswith("$"):
            return {"operatorName": name, "specifiedAs": {name: value}, "reason": "expression did not match"}
        return self._field(name, value)

    def _expression(self, spec: Any) -> dict[str, Any]:
        expression = parse_expression(spec, variables=frozenset(self._variables), collation=self._collation)
        result = expression(environment(self._document, self._variables))
        return {
            "operatorName": "$expr",
            "specifiedAs": {"$expr": spec},
            "reason": "expression did not match",
            "expressionResult": None if result is MISSING else result,
        }

    def _field(self, path: str, condition: Any) -> dict[str, Any]:
        if is_operator_document(condition):
            operator, operand = next(iter(condition.items()))
        else:
            operator, operand = "$eq", condition
        details: dict[str, Any] = {"operatorName": operator, "specifiedAs": {path: condition}}
        if operator == "$not":
            return {**details, "reason": "child expression matched"}
        if operator == "$exists":
            return {**details, "reason": "path does not exist" if operand else "path does exist"}
        values = [
            value
            for value, _ in Path(path).values(self._document, into_last_array=False)
            if value is not MISSING
        ]
        if not values:
            return {**details, "reason": "field was missing"}
        details["reason"] = _REASONS.get(operator, "comparison failed")
        details |= {"consideredValue": values[0]} if len(values) == 1 else {"consideredValues": values}
        return details

    def _matches(self, clause: Mapping[str, Any]) -> bool:
        matches = compile_match(clause, variables=self._variables, collation=self._collation)
        return matches(self._document)
