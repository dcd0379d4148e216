"""The operators by name: the one place where the families come together."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.expressions import (
    accumulators,
    arithmetic,
    arrays,
    bitwise,
    boolean,
    comparison,
    conditional,
    convert,
    date_arithmetic,
    date_format,
    date_from_string,
    date_parts,
    exponents,
    hashed_index,
    iteration,
    metadata,
    objects,
    regex,
    rounding,
    selection,
    sets,
    strings,
    trigonometry,
    variables,
)
from tailrace.query.expressions.scope import OperatorParser

OPERATORS: Final[Mapping[str, OperatorParser]] = {
    **accumulators.OPERATORS,
    **arithmetic.OPERATORS,
    **arrays.OPERATORS,
    **bitwise.OPERATORS,
    **boolean.OPERATORS,
    **comparison.OPERATORS,
    **conditional.OPERATORS,
    **convert.OPERATORS,
    **date_arithmetic.OPERATORS,
    **date_format.OPERATORS,
    **date_from_string.OPERATORS,
    **date_parts.OPERATORS,
    **exponents.OPERATORS,
    **hashed_index.OPERATORS,
    **iteration.OPERATORS,
    **metadata.OPERATORS,
    **objects.OPERATORS,
    **regex.OPERATORS,
    **rounding.OPERATORS,
    **selection.OPERATORS,
    **sets.OPERATORS,
    **strings.OPERATORS,
    **trigonometry.OPERATORS,
    **variables.OPERATORS,
}
