"""``$bitsAllSet $bitsAllClear $bitsAnySet $bitsAnyClear``.

The bits of a number are those of a 64-bit integer with its sign extended without end; a number that is no
such integer has none and never matches. The bits of binary data count from the first byte's lowest; beyond
its end all are clear.
"""

from collections.abc import Callable
from typing import Any, Final

from bson import Binary

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.expressions.numbers.number_types import fits_int64, integral_value
from tailrace.query.expressions.operands import INT32_MAX, is_number
from tailrace.query.match.nodes import Condition, ValueCondition
from tailrace.query.match.scope import Operation, Scope, bad_value

_SIGN_BIT: Final = 63
_SUBTYPE_WITH_INNER_LENGTH: Final = 2

# What is said of the bits that the mask selects, and of the mask itself.
_VERDICTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "$bitsAllSet": lambda selected, mask: selected == mask,
    "$bitsAllClear": lambda selected, _mask: selected == 0,
    "$bitsAnySet": lambda selected, _mask: selected != 0,
    "$bitsAnyClear": lambda selected, mask: selected != mask,
}


def parse_bits(operation: Operation, _scope: Scope) -> Condition:
    """A mask as a number, as binary data, or as an array of bit positions."""
    verdict = _VERDICTS[operation.name]
    number_mask, mask_for_bytes = _masks(operation)

    def holds(value: Any) -> bool:
        if isinstance(value, bytes):
            data = _bytes(value)
            mask = mask_for_bytes(len(data))
            return verdict(int.from_bytes(data, "little") & mask, mask)
        number = integral_value(value)
        return number is not None and fits_int64(number) and verdict(number & number_mask, number_mask)

    return ValueCondition(holds)


def _masks(operation: Operation) -> tuple[int, Callable[[int], int]]:
    """The mask for numbers, and the mask for so many bytes."""
    argument = operation.argument
    if isinstance(argument, list):
        return _masks_of_positions([_bit_position(item) for item in argument])
    if is_number(argument):
        number = integral_value(argument)
        if number is None or number < 0 or not fits_int64(number):
            message = f"{operation.name} needs a non-negative 64-bit integer as a mask"
            raise CommandError(ErrorCode.FailedToParse, message)
        return number, lambda _size: number
    if isinstance(argument, bytes):
        bits = int.from_bytes(_bytes(argument), "little")
        return _with_sign_extension(bits), lambda _size: bits
    raise bad_value(f"{operation.name} takes an array, a number, or binary data")


def _masks_of_positions(positions: list[int]) -> tuple[int, Callable[[int], int]]:
    number_mask = 0
    for position in positions:
        number_mask |= 1 << min(position, _SIGN_BIT)

    def mask_for_bytes(size: int) -> int:
        # All positions beyond the end are clear alike: one stands for them, and no mask grows out of bounds.
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
    if isinstance(value, Binary) and value.subtype == _SUBTYPE_WITH_INNER_LENGTH:
        return len(value).to_bytes(4, "little") + value
    return value
