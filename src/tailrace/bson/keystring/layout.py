"""The type bytes and other constants of the format.

The order of the type bytes is the order of BSON's type brackets. `GENERIC` has the byte before a field name:
the bracket of the value that follows, the same for all numbers and both bools.

Numbers use the classes from `NAN` to `LARGE`. A negative class is the mirror image of the positive one
(``class + mirror == 2 * ZERO``) and its payload is complemented, so that larger magnitudes sort lower.
"""

from typing import Final

from tailrace.bson import raw
from tailrace.error_codes import ErrorCode
from tailrace.errors import KeyStringError

END: Final = 0x04
LESS: Final = 0x01
GREATER: Final = 0xFE
"""With `LESS`, a mark that index searches put between values; a reader skips one"""

MIN_KEY: Final = 0x0A
UNDEFINED: Final = 0x0F
NULL: Final = 0x14
NAN: Final = 0x1E
ZERO: Final = 0x29
BELOW_ONE: Final = 0x2A
"""Magnitudes between zero and one"""
LARGE: Final = 0x33
"""Magnitudes of 2**63 and more; between the two, one class for each size of the integer part in bytes"""
STRING: Final = 0x3C
OBJECT: Final = 0x46
ARRAY: Final = 0x50
BINARY: Final = 0x5A
OBJECT_ID: Final = 0x64
FALSE: Final = 0x6E
TRUE: Final = 0x6F
DATE: Final = 0x78
TIMESTAMP: Final = 0x82
REGEX: Final = 0x8C
DB_POINTER: Final = 0x96
CODE: Final = 0xA0
CODE_WITH_SCOPE: Final = 0xAA
MAX_KEY: Final = 0xF0

GENERIC: Final[dict[int, int]] = {
    raw.MIN_KEY: MIN_KEY, raw.UNDEFINED: UNDEFINED, raw.NULL: NULL,
    raw.INT32: NAN, raw.INT64: NAN, raw.DOUBLE: NAN, raw.DECIMAL128: NAN,
    raw.STRING: STRING, raw.SYMBOL: STRING, raw.DOCUMENT: OBJECT, raw.ARRAY: ARRAY, raw.BINARY: BINARY,
    raw.OBJECT_ID: OBJECT_ID, raw.BOOL: FALSE, raw.DATE: DATE, raw.TIMESTAMP: TIMESTAMP, raw.REGEX: REGEX,
    raw.DB_POINTER: DB_POINTER, raw.CODE: CODE, raw.CODE_WITH_SCOPE: CODE_WITH_SCOPE, raw.MAX_KEY: MAX_KEY,
}  # fmt: skip

DATE_OFFSET: Final = 1 << 63
"""Added to the milliseconds of a date, so that dates before 1970 sort first"""
MAX_DEPTH: Final = 200
LONG_BINARY: Final = 0xFF
"""A length byte that means that the length follows in four bytes"""

# How a decimal relates to the double below it, in the two lowest bits of a double's form. The four values
# sort in this order, so decimals sort between neighbouring doubles.
EQUALS_DOUBLE: Final = 0
BELOW_15_DIGITS: Final = 1
EQUALS_15_DIGITS: Final = 2
ABOVE_15_DIGITS: Final = 3
CONTINUED: Final = frozenset({BELOW_15_DIGITS, ABOVE_15_DIGITS})
"""Markers followed by the continuation: the distance of the decimal from its reference, in 64 bits"""


def check_depth(depth: int) -> None:
    """Refuse an object or array that is nested too deeply; the scope of code counts as two levels."""
    if depth > MAX_DEPTH:
        raise KeyStringError(ErrorCode.Overflow, f"values are nested deeper than {MAX_DEPTH} levels")
