"""The signature of a stage, and the variables and collation of its expressions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.query.dialect import CURRENT_DIALECT, Dialect
from tailrace.query.expressions import Environment, Expression, environment, parse_expression
from tailrace.query.expressions.scope import Collating

Document = dict[str, Any]
Stage = Callable[[Document], Document | None]


@dataclass(frozen=True, slots=True)
class StageContext:
    """The variables and the collation of a stage's expressions."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    collation: Collating | None = None
    dialect: Dialect = CURRENT_DIALECT
    reads_whole: bool = False
    is_query: bool = False
    """Whether the stage is a part of the query that reads a collection: a server tests expressions last."""

    def parse(self, spec: Any, *, more_variables: Mapping[str, Any] | None = None) -> Expression:
        names = frozenset(self.variables) | frozenset(more_variables or ())
        return parse_expression(spec, variables=names, collation=self.collation, dialect=self.dialect)

    def environment(self, document: Document) -> Environment:
        """The environment of the stage's expressions for a document."""
        return environment(document, self.variables)
