"""``$expMovingAvg``: the exponential moving average."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from bson import Decimal128

from tailrace.mongod.language.aggregation.windows.function import (
    FunctionParser,
    WindowCall,
    WindowFunction,
    failed,
)
from tailrace.mongod.language.aggregation.windows.partition import Partition
from tailrace.query.expressions.numbers.arithmetic import add, multiply
from tailrace.query.expressions.numbers.number_types import decimal128, int32_value, to_decimal, to_double
from tailrace.query.expressions.operands import Number, is_number


def _parse_exponential(call: WindowCall) -> WindowFunction:
    """With ``alpha``, the weight of the newest value, or with ``N``, from which the weight is computed."""
    call.refuse_window()
    options = call.options(required=("input",), optional=("N", "alpha"))
    call.require_order()
    if ("N" in options) == ("alpha" in options):
        raise failed(f"{call.name} requires either 'N' or 'alpha', and not both")
    weight = (
        _weight_of_count(call.name, options["N"]) if "N" in options else _alpha(call.name, options["alpha"])
    )
    rest = 1 - weight
    source = call.scope.parse(options["input"])

    def values(partition: Partition) -> list[Any]:
        average: Number | None = None
        results: list[Any] = []
        for value in partition.evaluate(source):
            if not is_number(value):
                results.append(average)
                continue
            if average is None:
                value = value if isinstance(value, Decimal128) else to_double(value)
            else:
                value = add([_weighted(value, weight), _weighted(average, rest)])
            average = value
            results.append(value)
        return results

    return values


def _weighted(value: Number, weight: Decimal) -> Number:
    factor = decimal128(weight) if isinstance(value, Decimal128) else float(weight)
    product: Number = multiply([value, factor])
    return product


def _weight_of_count(name: str, count: Any) -> Decimal:
    number = int32_value(count)
    if number is None or number < 1:
        raise failed(f"'N' of {name} must be an integer greater than zero, found {count!r}")
    return Decimal(2) / Decimal(number + 1)


def _alpha(name: str, alpha: Any) -> Decimal:
    if not is_number(alpha) or not 0 < to_double(alpha) < 1:
        raise failed(f"'alpha' of {name} must be between 0 and 1 (exclusive), found {alpha!r}")
    return to_decimal(alpha) if isinstance(alpha, Decimal128) else Decimal(repr(to_double(alpha)))


FUNCTIONS: Final[Mapping[str, FunctionParser]] = {"$expMovingAvg": _parse_exponential}
