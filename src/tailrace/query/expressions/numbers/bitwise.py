"""Bitwise operators on int32 and int64 in two's complement; the result is an int64 if an operand is."""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

from bson import Int64

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.arguments import unary, variadic
from tailrace.query.expressions.operands import is_int64, is_integer, is_nullish, type_name
from tailrace.query.expressions.scope import OperatorParser


def _bits(name: str, combine: Callable[[int, int], int], identity: int) -> OperatorParser:
    def apply(values: Iterable[Any]) -> int | None:
        result, wide = identity, False
        for value in values:
            if is_nullish(value):
                return None
            _check_integer(name, value)
            result = combine(result, value)
            wide = wide or is_int64(value)
        return Int64(result) if wide else result

    return variadic(apply)


def _bit_not(value: Any) -> int | None:
    if is_nullish(value):
        return None
    _check_integer("$bitNot", value)
    return Int64(~value) if is_int64(value) else ~value


def _check_integer(name: str, value: Any) -> None:
    if not is_integer(value):
        raise CommandError(
            ErrorCode.TypeMismatch, f"{name} only supports int and long operands, not {type_name(value)}"
        )


OPERATORS: Final[dict[str, OperatorParser]] = {
    "$bitAnd": _bits("$bitAnd", operator.and_, -1),
    "$bitNot": unary(_bit_not),
    "$bitOr": _bits("$bitOr", operator.or_, 0),
    "$bitXor": _bits("$bitXor", operator.xor, 0),
}
