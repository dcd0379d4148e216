"""Operators that compute: ``$inc``, ``$mul``, ``$min``, ``$max``, ``$bit``.

The result of arithmetic has the wider type of its operands; an int32 that overflows becomes an int64, an
int64 that overflows is an error. ``$min`` and ``$max`` use BSON order, across types.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from bson import Int64

from tailrace.bson.compare import compare, equal, type_name
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.language.update.operator import (
    UNCHANGED,
    Changed,
    CompileOptions,
    Operator,
    Outcome,
    Path,
    UpdateContext,
    changed_unless_same,
    dotted,
)
from tailrace.query.expressions.numbers.number_types import (
    DECIMAL,
    Kind,
    decimal128,
    fits_int64,
    int32_or_int64,
    kind_of,
    to_decimal,
    to_double,
)
from tailrace.query.expressions.operands import Number, is_int64, is_integer, is_number
from tailrace.query.missing import MISSING, Missing

Arithmetic: TypeAlias = Callable[[Any, Any], Any]

_BIT_OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "and": lambda left, right: left & right,
    "or": lambda left, right: left | right,
    "xor": lambda left, right: left ^ right,
}


def compile_inc(path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$inc`` takes a number; a missing field is set to it."""
    operand = _number("$inc", path, value)
    return _arithmetic("$inc", operand, operand, lambda left, right: left + right, DECIMAL.add)


def compile_mul(path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$mul`` takes a number; a missing field is set to a zero of its type."""
    operand = _number("$mul", path, value)

    def product(left: Any, right: Any) -> Any:
        return left * right

    zero = _compute(0, operand, product, DECIMAL.multiply)
    return _arithmetic("$mul", operand, zero, product, DECIMAL.multiply)


def _number(name: str, path: str, value: Any) -> Number:
    if not is_number(value):
        verb = "increment" if name == "$inc" else "multiply"
        message = f"Cannot {verb} with non-numeric argument: {{{path}: {shell(value)}}}"
        raise CommandError(ErrorCode.TypeMismatch, message)
    return value


def _arithmetic(
    name: str, operand: Number, if_missing: Any, plain: Arithmetic, decimal: Arithmetic
) -> Operator:
    def apply(current: Any | Missing, path: Path, context: UpdateContext) -> Outcome:
        if current is MISSING:
            return Changed(if_missing)
        if not is_number(current):
            message = (
                f"Cannot apply {name} to a value of non-numeric type. {context.shown_id} has the field "
                f"'{path[-1]}' of non-numeric type {type_name(current)}"
            )
            raise CommandError(ErrorCode.TypeMismatch, message)
        result = _compute(current, operand, plain, decimal)
        if result is None:
            message = (
                f"Failed to apply {name} operations to current value ((NumberLong){current}) "
                f"for document {context.shown_id}"
            )
            raise CommandError(ErrorCode.BadValue, message)
        return UNCHANGED if _is_same(current, result) else Changed(result)

    return Operator(apply)


def _compute(left: Number, right: Number, plain: Arithmetic, decimal: Arithmetic) -> Number | None:
    """The result in the wider type of the two; None if it exceeds int64."""
    kind = max(kind_of(left), kind_of(right))
    # The operator's number comes first, as on the server: of two NaN the result is the first.
    if kind is Kind.DECIMAL:
        return decimal128(decimal(to_decimal(right), to_decimal(left)))
    if kind is Kind.DOUBLE:
        return float(plain(to_double(right), to_double(left)))
    result: int = plain(left, right)
    if not fits_int64(result):
        return None
    return int32_or_int64(result) if kind is Kind.INT32 else Int64(result)


def _is_same(left: Number, right: Number) -> bool:
    """Whether two numbers of one type are equal: 1.0 and 1.00 are, NaN never is."""
    is_nan = compare(right, math.nan) == 0
    return kind_of(left) is kind_of(right) and not is_nan and equal(left, right)


def compile_min(_path: str, value: Any, options: CompileOptions) -> Operator:
    """``$min`` takes any value and sets it if it is lower."""
    return _extreme(value, -1, options)


def compile_max(_path: str, value: Any, options: CompileOptions) -> Operator:
    """``$max`` takes any value and sets it if it is higher."""
    return _extreme(value, 1, options)


def _extreme(value: Any, wanted: int, options: CompileOptions) -> Operator:
    def apply(current: Any | Missing, _path: Path, _context: UpdateContext) -> Outcome:
        if current is MISSING or compare(value, current, options.string_key) == wanted:
            return Changed(value)
        return UNCHANGED

    return Operator(apply)


def compile_bit(path: str, value: Any, _options: CompileOptions) -> Operator:
    """``$bit`` takes ``{and | or | xor: <integer>, ...}``; a missing field counts as int32 0."""
    if not isinstance(value, Mapping) or not value:
        message = f"$bit of {path!r} takes an object with at least one of 'and', 'or' and 'xor'"
        raise CommandError(ErrorCode.BadValue, message)
    for name, operand in value.items():
        if name not in _BIT_OPERATIONS:
            message = f"$bit of {path!r} knows 'and', 'or' and 'xor', not {name!r}"
            raise CommandError(ErrorCode.BadValue, message)
        if not is_integer(operand):
            message = f"$bit of {path!r} takes integers, not {type_name(operand)}"
            raise CommandError(ErrorCode.BadValue, message)

    def apply(current: Any | Missing, path: Path, _context: UpdateContext) -> Outcome:
        result: Any = 0 if current is MISSING else current
        if not is_integer(result):
            message = f"cannot apply $bit to the field {dotted(path)!r} of type {type_name(result)}"
            raise CommandError(ErrorCode.BadValue, message)
        for name, operand in value.items():
            bits = _BIT_OPERATIONS[name](int(result), int(operand))
            result = Int64(bits) if is_int64(result) or is_int64(operand) else bits
        return changed_unless_same(current, result)

    return Operator(apply)
