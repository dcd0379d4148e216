"""The table of all operators."""

from collections.abc import Mapping
from typing import Final

from tailrace.query.expressions import boolean, comparison, conditional, metadata, objects, variables
from tailrace.query.expressions.arrays import accumulators, array_operators, iteration, selection, sets
from tailrace.query.expressions.conversion import convert, hashed_index
from tailrace.query.expressions.dates import date_arithmetic, date_format, date_from_string, date_parts
from tailrace.query.expressions.numbers import arithmetic, bitwise, exponents, rounding, trigonometry
from tailrace.query.expressions.scope import OperatorParser
from tailrace.query.expressions.strings import regex, string_operators

OPERATORS: Final[Mapping[str, OperatorParser]] = {
    **accumulators.OPERATORS,
    **arithmetic.OPERATORS,
    **array_operators.OPERATORS,
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
    **string_operators.OPERATORS,
    **trigonometry.OPERATORS,
    **variables.OPERATORS,
}
