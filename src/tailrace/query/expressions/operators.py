"""The operators by name: the one place where the families come together."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.expressions import (
    arithmetic,
    bitwise,
    boolean,
    comparison,
    conditional,
    exponents,
    rounding,
    trigonometry,
    variables,
)
from tailrace.query.expressions.scope import OperatorParser

OPERATORS: Final[Mapping[str, OperatorParser]] = {
    **arithmetic.OPERATORS,
    **bitwise.OPERATORS,
    **boolean.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
    **exponents.OPERATORS,
    **rounding.OPERATORS,
    **trigonometry.OPERATORS,
    **variables.OPERATORS,
}
