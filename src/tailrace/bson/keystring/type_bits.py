"""The bit stream that distinguishes values with equal keys.

Bits are stored in bytes from the least significant bit on. A stream without a set bit is not stored, so an
empty stream is read as an unlimited number of zeros; reading a stored stream past its last byte is an error.

========================================= ===================================================
string, symbol                            0, 1
int32, int64, double                      00, 01, 10
double -0.0                               11000
decimal                                   11, then six bits of the exponent
decimal NaN and infinity                  11
decimal zero                              five bits from 11010 to 11111, then twelve more
========================================= ===================================================
"""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import KeyStringError

INT32: Final = 0b00
INT64: Final = 0b01
DOUBLE: Final = 0b10
DECIMAL: Final = 0b11
NEGATIVE_DOUBLE_ZERO: Final = 0b11000
FIRST_DECIMAL_ZERO: Final = 0b11010

_KIND_BITS: Final = 2
EXPONENT_BITS: Final = 6
EXPONENT_MASK: Final = (1 << EXPONENT_BITS) - 1
ZERO_EXPONENT_BITS: Final = 12

_LONG_FORM: Final = 0x80
_SHORT_FORM_LIMIT: Final = 127


class TypeBits:
    """Collects the bits of one key.

    >>> bits = TypeBits()
    >>> bits.skip(6)
    >>> bits.append(INT64, 2)
    >>> bits.serialize().hex()
    '8180'
    """

    __slots__ = ("_length", "_ones")

    def __init__(self) -> None:
        self._length = 0
        self._ones: list[int] = []

    def skip(self, count: int) -> None:
        """Append zeros, which are the bits of strings and int32 values."""
        self._length += count

    def append(self, value: int, count: int) -> None:
        """Append the ``count`` low bits of ``value``, the highest of them first."""
        position = self._length
        self._length = position + count
        for shift in range(count - 1, -1, -1):
            if value >> shift & 1:
                self._ones.append(position)
            position += 1

    def serialize(self) -> bytes:
        """The stored form of the stream; empty if no bit is set."""
        if not self._ones:
            return b""
        data = bytearray((self._length + 7) // 8)
        for position in self._ones:
            data[position >> 3] |= 1 << (position & 7)
        if len(data) == 1 and data[0] < _LONG_FORM:
            return bytes(data)
        if len(data) <= _SHORT_FORM_LIMIT:
            return bytes((_LONG_FORM | len(data),)) + data
        return bytes((_LONG_FORM,)) + len(data).to_bytes(4, "little") + data


class _NoBits(TypeBits):
    __slots__ = ()

    def skip(self, count: int) -> None:
        pass

    def append(self, value: int, count: int) -> None:
        pass


NO_BITS: Final[TypeBits] = _NoBits()
"""For keys that are never decoded: discards all type bits"""


class TypeBitsReader:
    """Reads a stored stream from its first bit on."""

    __slots__ = ("_data", "_position")

    def __init__(self, stored: bytes = b"") -> None:
        self._data = _unwrap(stored)
        self._position = 0

    def read(self, count: int) -> int:
        """The next ``count`` bits, the first of them highest."""
        data = self._data
        if data is None:
            return 0
        value = 0
        for position in range(self._position, self._position + count):
            if position >> 3 >= len(data):
                raise KeyStringError(50615, "there are fewer type bits than the values need")
            value = value << 1 | data[position >> 3] >> (position & 7) & 1
        self._position += count
        return value

    def read_zero(self) -> int:
        """The kind of a zero: two bits, or five if the first two are set."""
        kind = self.read(_KIND_BITS)
        return kind << 3 | self.read(3) if kind == DECIMAL else kind


class FreeTypeBits(TypeBitsReader):
    """For keys whose type bits are not known: ``kind`` is that of the next number, other bits are zero."""

    __slots__ = ("kind",)

    def __init__(self) -> None:
        super().__init__()
        self.kind = INT32

    def read(self, count: int) -> int:
        return self.kind if count == _KIND_BITS else 0


def _unwrap(stored: bytes) -> bytes | None:
    """The data bytes of a stored stream; None for an unlimited number of zeros."""
    if not stored or stored[0] == 0:
        return None
    head = stored[0]
    if head < _LONG_FORM:
        return stored[:1]
    start, length = 1, head & ~_LONG_FORM
    if head == _LONG_FORM:
        start, length = 5, int.from_bytes(stored[1:5], "little")
        if len(stored) >= start and length <= _SHORT_FORM_LIMIT:
            raise KeyStringError(50910, f"the long form of type bits is used for {length} bytes")
    if len(stored) < start + length:
        raise KeyStringError(ErrorCode.Overflow, "the type bits end before their announced length")
    return stored[start : start + length]
