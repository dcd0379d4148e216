"""A position in key bytes, and their type bits."""

from tailrace.bson.keystring.type_bits import TypeBitsReader
from tailrace.error_codes import ErrorCode
from tailrace.errors import KeyStringError


class KeyReader:
    """Reads the bytes of a key from left to right; reading past the end is error 15."""

    __slots__ = ("bits", "data", "position")

    def __init__(self, data: bytes, type_bits: bytes) -> None:
        self.data = data
        self.position = 0
        self.bits = TypeBitsReader(type_bits)

    def byte(self) -> int:
        position = self.position
        if position >= len(self.data):
            raise KeyStringError(ErrorCode.Overflow, "the bytes end in the middle of a value")
        self.position = position + 1
        return self.data[position]

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes."""
        end = self.position + count
        if end > len(self.data):
            raise KeyStringError(ErrorCode.Overflow, "the bytes end in the middle of a value")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def magnitude(self, count: int, negative: bool) -> int:
        """The next ``count`` bytes as an unsigned number, complemented back for negative classes."""
        value = int.from_bytes(self.take(count), "big")
        return value ^ ((1 << 8 * count) - 1) if negative else value

    def name(self) -> bytes:
        """The bytes up to the next NUL, which is consumed."""
        end = self._find_nul(self.position)
        taken = self.data[self.position : end]
        self.position = end + 1
        return taken

    def text(self) -> bytes:
        """Like `name`, but a NUL in the text is written as 00 FF."""
        data, end = self.data, self._find_nul(self.position)
        has_nul = False
        while data[end + 1 : end + 2] == b"\xff":
            has_nul = True
            end = self._find_nul(end + 2)
        taken = data[self.position : end]
        self.position = end + 1
        return taken.replace(b"\0\xff", b"\0") if has_nul else taken

    def _find_nul(self, start: int) -> int:
        end = self.data.find(0, start)
        if end < 0:
            raise KeyStringError(50816, "a text has no terminating NUL")
        return end
