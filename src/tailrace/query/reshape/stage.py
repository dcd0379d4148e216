"""What the stages have in common: their signature, and how a document becomes an environment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tailrace.query.expressions import Environment, Expression, environment, parse_expression
from tailrace.query.expressions.scope import Collating

Document = dict[str, Any]
Stage = Callable[[Document], Document | None]


@dataclass(frozen=True, slots=True)
class StageContext:
    """What expressions in a stage may refer to beside the document."""

    variables: Mapping[str, Any] = field(default_factory=dict)
    collation: Collating | None = None

    def parse(self, spec: Any, *, more_variables: Mapping[str, Any] | None = None) -> Expression:
        """An expression of the stage."""
        names = frozenset(self.variables) | frozenset(more_variables or ())
        return parse_expression(spec, variables=names, collation=self.collation)

    def environment(self, document: Document) -> Environment:
        """Where the stage's expressions are evaluated for a document."""
        return environment(document, self.variables)
