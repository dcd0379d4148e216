"""``$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear``.

The bits of a number are those of a 64-bit integer with infinite sign extension; a number that is not a 64-bit
integer never matches. Bits of binary data are counted from the lowest bit of the first byte; bits after its
end are clear.
"""

from collections.abc import Callable
from typing import Any, Final

from bson import Binary

from tailrace.bson.raw import OLD_BINARY_SUBTYPE
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import INT32_MAX, is_number
from tailrace.query.match.nodes import Condition, ValueCondition
from tailrace.query.match.scope import FilterScope, OperatorCall, bad_value

_SIGN_BIT: Final = 63

# Tests of the selected bits (the value's bits that are in the mask) and the mask.
_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "$bitsAllSet": lambda selected, mask: selected == mask,
    "$bitsAllClear": lambda selected, _mask: selected == 0,
    "$bitsAnySet": lambda selected, _mask: selected != 0,
    "$bitsAnyClear": lambda selected, mask: selected != mask,
}


def parse_bits(call: OperatorCall, _scope: FilterScope) -> Condition:
    """A mask as a number, as binary data, or as an array of bit positions."""
    test = _TESTS[call.name]
    number_mask, mask_for_bytes = _masks(call)

    def holds(value: Any) -> bool:
        if isinstance(value, bytes):
            data = _bytes(value)
            mask = mask_for_bytes(len(data))
            return test(int.from_bytes(data, "little") & mask, mask)
        number = integral_value(value)
        return number is not None and fits_int64(number) and test(number & number_mask, number_mask)

    return ValueCondition(holds)


def _masks(call: OperatorCall) -> tuple[int, Callable[[int], int]]:
    """The mask for numbers, and a function that returns the mask for a number of bytes."""
    argument = call.argument
    if isinstance(argument, list):
        return _masks_of_positions([_bit_position(item) for item in argument])
    if is_number(argument):
        number = integral_value(argument)
        if number is None or number < 0 or not fits_int64(number):
            message = f"{call.name} needs a non-negative 64-bit integer as a mask"
            raise CommandError(ErrorCode.FailedToParse, message)
        return number, lambda _size: number
    if isinstance(argument, bytes):
        bits = int.from_bytes(_bytes(argument), "little")
        return _with_sign_extension(bits), lambda _size: bits
    raise bad_value(f"{call.name} takes an array, a number, or binary data")


def _masks_of_positions(positions: list[int]) -> tuple[int, Callable[[int], int]]:
    number_mask = 0
    for position in positions:
        number_mask |= 1 << min(position, _SIGN_BIT)

    def mask_for_bytes(size: int) -> int:
        # All positions after the end are clear: they share one bit, so that the mask stays small.
        mask = 0
        for position in positions:
            mask |= 1 << min(position, size * 8)
        return mask

    return number_mask, mask_for_bytes


def _with_sign_extension(bits: int) -> int:
    low = bits & ((1 << (_SIGN_BIT + 1)) - 1)
    return low | 1 << _SIGN_BIT if bits >> _SIGN_BIT else low


def _bit_position(value: Any) -> int:
    position = integral_value(value)
    if position is None or not 0 <= position <= INT32_MAX:
        raise bad_value("Failed to parse bit position. Expected a non-negative 32-bit integer")
    return position


def _bytes(value: bytes) -> bytes:
    # BSON counts the length field that subtype 2 carries inside its payload; PyMongo hides it.
    if isinstance(value, Binary) and value.subtype == OLD_BINARY_SUBTYPE:
        return len(value).to_bytes(4, "little") + value
    return value
