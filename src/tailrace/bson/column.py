"""Check the structure of a BSON column, the content of BinData subtype 7.

A column is a compressed list of values: literal elements without a name, blocks of packed differences, and
interleaved runs that begin with a reference document. A zero byte ends a run and the column. Only this
structure is checked; the differences are not unpacked.
"""

from typing import Final

from tailrace.bson import raw as rawbson
from tailrace.errors import BsonError

SUBTYPE: Final = 7

_END: Final = 0
_INTERLEAVED: Final = frozenset({0xF0, 0xF1, 0xF2})
_LITERAL_MASK: Final = 0xE0
_DIFFERENCES: Final = range(0x80, 0xE0)
_BLOCK_SIZE: Final = 8


def is_column(data: bytes) -> bool:
    """Whether ``data`` has the structure of a column, up to a zero byte at its end.

    >>> is_column(bytes.fromhex("1000 05000000 80 0000000000000000 00")), is_column(bytes.fromhex("10"))
    (True, False)
    """
    try:
        position = _run_end(data, 0, may_interleave=True)
    except (BsonError, IndexError):
        return False
    return position == len(data)


def _run_end(data: bytes, position: int, *, may_interleave: bool) -> int:
    """The end of the run that begins at ``position``, its zero byte included."""
    while True:
        control = data[position]
        if control == _END:
            return position + 1
        if control in _DIFFERENCES:
            position += 1 + _BLOCK_SIZE * ((control & 0x0F) + 1)
        elif may_interleave and control in _INTERLEAVED:
            reference_end = _value_end(data, rawbson.DOCUMENT, position + 1)
            position = _run_end(data, reference_end, may_interleave=False)
        elif control & _LITERAL_MASK == 0 or control in (rawbson.MIN_KEY, rawbson.MAX_KEY):
            if data[position + 1] != 0:
                raise BsonError("a value in a column has a name")
            position = _value_end(data, control, position + 2)
        else:
            raise BsonError(f"0x{control:02x} is no control byte of a column")


def _value_end(data: bytes, kind: int, start: int) -> int:
    end = rawbson.value_end(data, kind, start)
    if kind in (rawbson.DOCUMENT, rawbson.ARRAY):
        for _ in rawbson.elements(data, start):
            pass
    return end
