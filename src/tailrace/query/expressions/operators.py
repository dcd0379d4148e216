"""The operators by name: the one place where the families come together."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.expressions import boolean, comparison, conditional, variables
from tailrace.query.expressions.scope import OperatorParser

OPERATORS: Final[Mapping[str, OperatorParser]] = {
    **boolean.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
    **variables.OPERATORS,
}
