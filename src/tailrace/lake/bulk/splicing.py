"""Build columns of bytes from slices of other bytes, many rows at a time.

A row of the column is a sequence of pieces: bytes that all rows share, bytes of a fixed width
that differ, and slices of any length. Rows that are built alike make a `Group`. Nothing is done row by row:
numpy moves a piece of all rows at once, as items of the piece's width that may begin at any byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.errors import HistoryError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]

PADDING: Final = 64
"""zero bytes after a buffer, so that a fixed-size item may be read at any of its bytes"""
_MOST_BYTES: Final = (1 << 31) - 1
"""offsets of a column have 32 bits, and larger ones would be wrong without notice"""
_LONG: Final = 1 << 13
"""slices from this size on are copied one by one"""

_COPIED_AT_ONCE: Final = 1 << 16

HEX: Final = np.frombuffer(b"".join(b"%02X" % byte for byte in range(256)), "<u2")
HEX_LOWER: Final = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), "<u2")


@dataclass(frozen=True, slots=True)
class Slices:
    """A piece of any length: where it begins in ``buffer``, which is padded, and how long it is."""

    buffer: Bytes
    starts: Positions
    lengths: Positions


Piece: TypeAlias = bytes | Bytes | Slices
"""the same for all rows; a matrix with one line for each row; or slices"""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that consist of the same pieces."""

    rows: Positions
    pieces: Sequence[Piece]

    def lengths(self) -> Positions:
        """How many bytes each row has."""
        total = np.zeros(len(self.rows), np.int64)
        for piece in self.pieces:
            if isinstance(piece, bytes):
                total += len(piece)
            else:
                total += piece.lengths if isinstance(piece, Slices) else piece.shape[1]
        return total


def items(buffer: Bytes, kind: str) -> npt.NDArray[Any]:
    """What the buffer holds from each of its bytes on, read as items of a numpy type."""
    dtype = np.dtype(kind)
    return np.ndarray((len(buffer) - dtype.itemsize + 1,), dtype, buffer, strides=(1,))


def have_bytes(buffer: Bytes, positions: Positions, text: bytes) -> npt.NDArray[np.bool_]:
    """At which of some positions ``text`` is; at least four bytes are read at each."""
    size = len(text)
    width = 8 if size >= 8 else 4
    words = items(buffer, f"<u{width}")
    if size < width:
        mask = words.dtype.type((1 << 8 * size) - 1)
        return np.asarray(words[positions] & mask == int.from_bytes(text, "little"), np.bool_)
    # The last word may overlap the one before it.
    places = dict.fromkeys([*range(0, size - width + 1, width), size - width])
    found = np.ones(len(positions), np.bool_)
    for place in places:
        found &= words[positions + place] == int.from_bytes(text[place : place + width], "little")
    return found


class MaskedText:
    """At most `PADDING` bytes to be found at many positions of a buffer, some of which may be any."""

    __slots__ = ("_width", "_words")

    def __init__(self, text: bytes, mask: bytes) -> None:
        """``mask`` has 0xFF for each byte that counts, and 0 for others."""
        size = len(mask.rstrip(b"\0"))
        self._width = -(-size // 8) * 8
        wanted, masks = (np.frombuffer(of[:size].ljust(self._width, b"\0"), "<u8") for of in (text, mask))
        self._words = [
            (place, wanted[place] & counting, counting)
            for place, counting in enumerate(masks)
            if counting
        ]  # fmt: skip

    def found_at(self, buffer: Bytes, positions: Positions) -> npt.NDArray[np.bool_]:
        """At which positions the bytes are; as many bytes are read as a multiple of 8 has."""
        found = np.ones(len(positions), np.bool_)
        if not self._width:
            return found
        words = lines(buffer, positions, self._width).view("<u8")
        for place, wanted, counting in self._words:
            found &= words[:, place] & counting == wanted
        return found


def padded(parts: Sequence[bytes]) -> Bytes:
    """Byte strings joined, and padding."""
    return np.frombuffer(b"".join([*parts, bytes(PADDING)]), np.uint8)


def slices_of(values: Sequence[bytes]) -> Slices:
    """Values as slices of one buffer."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Slices(padded(values), np.cumsum(lengths) - lengths, lengths)


def piece_of(buffer: Bytes, starts: Positions, lengths: Positions) -> Bytes | Slices:
    """Slices, as a matrix if they are short and of one length."""
    width = int(lengths[0])
    if 0 < width < _LONG and (lengths == width).all():
        return lines(buffer, starts, width)
    return Slices(buffer, starts, lengths)


def chosen(values: Sequence[bytes], codes: Positions) -> Piece:
    """One of some values for each row, by its number."""
    first = values[0]
    if all(value == first for value in values):
        return first
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    starts = np.cumsum(lengths) - lengths
    return piece_of(padded(values), starts[codes], lengths[codes])


def hexed(lines: Bytes, digits: npt.NDArray[np.uint16] = HEX) -> Bytes:
    """The hex digits of each line of a matrix."""
    return digits[lines].view(np.uint8)


def lines(buffer: Bytes, starts: Positions, width: int) -> Bytes:
    """Slices of one width as a matrix."""
    taken: npt.NDArray[Any] = items(buffer, f"V{width}")[starts]
    return taken.view(np.uint8).reshape(-1, width)


def little_endian(values: npt.NDArray[Any], kind: str) -> Bytes:
    """Numbers as lines of bytes, written as a numpy type that has the low byte first."""
    return values.astype(kind).view(np.uint8).reshape(len(values), -1)


def big_endian(values: npt.NDArray[Any]) -> Bytes:
    """64-bit numbers as lines of 8 bytes, the high byte first."""
    return values.astype(">u8").view(np.uint8).reshape(-1, 8)


def too_large(size: str) -> HistoryError:
    """The error of a column that has no room for its bytes."""
    return HistoryError(
        f"the events of one slice of time have {size} in one column, which has room for {_MOST_BYTES}; "
        "a transaction may be too large, or a source may have too many shards"
    )


def spliced(count: int, groups: Sequence[Group], kind: pa.DataType) -> pa.Array:
    """A column of ``count`` rows, binary or text; a row that is in no group is null."""
    lengths = np.zeros(count, np.int64)
    for group in groups:
        lengths[group.rows] = group.lengths()
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MOST_BYTES:
        raise too_large(f"{offsets[-1]} bytes")
    target = np.empty(int(offsets[-1]) + PADDING, np.uint8)
    for group in groups:
        position = offsets[group.rows]
        for piece in _merged(group.pieces, len(group.rows)):
            if isinstance(piece, Slices):
                _copy(piece, target, position)
                position = position + piece.lengths
            else:
                width = piece.shape[1]
                items(target, f"V{width}")[position] = piece.view(f"V{width}").ravel()
                position = position + width
    buffers = [_validity(count, groups), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(target)]
    return pa.Array.from_buffers(kind, count, buffers)


def _validity(count: int, groups: Sequence[Group]) -> pa.Buffer | None:
    if sum(len(group.rows) for group in groups) == count:
        return None
    there = np.zeros(count, np.uint8)
    for group in groups:
        there[group.rows] = 1
    return pa.py_buffer(np.packbits(there, bitorder="little"))


def _merged(pieces: Sequence[Piece], count: int) -> list[Bytes | Slices]:
    """The pieces, those of a fixed width that follow each other as one matrix."""
    merged: list[Bytes | Slices] = []
    run: list[bytes | Bytes] = []
    for piece in pieces:
        if not isinstance(piece, Slices):
            run.append(piece)
            continue
        if run:
            merged.append(matrix_of(run, count))
            run = []
        merged.append(piece)
    if run:
        merged.append(matrix_of(run, count))
    return merged


def matrix_of(run: Sequence[bytes | Bytes], count: int) -> Bytes:
    """Pieces of a fixed width as one, with a line for each of ``count`` rows."""
    if len(run) == 1 and not isinstance(run[0], bytes):
        return np.ascontiguousarray(run[0])
    # A whole line at once is quicker than each of its parts: what differs is written over it.
    shared = b"".join([piece if isinstance(piece, bytes) else bytes(piece.shape[1]) for piece in run])
    matrix = np.empty((count, len(shared)), np.uint8)
    matrix[:] = np.frombuffer(shared, np.uint8)
    at = 0
    for piece in run:
        if isinstance(piece, bytes):
            at += len(piece)
        else:
            matrix[:, at : at + piece.shape[1]] = piece
            at += piece.shape[1]
    return matrix


def _copy(piece: Slices, target: Bytes, position: Positions) -> None:
    """Copy slices: one of 2^k to 2^(k+1) bytes is two blocks of 2^k, which may overlap."""
    lengths = piece.lengths
    short = np.flatnonzero((lengths > 0) & (lengths < _LONG))
    exponents = np.frexp(lengths[short].astype(np.float64))[1] - 1
    for exponent in np.unique(exponents).tolist():
        rows = short[exponents == exponent]
        block = 1 << exponent
        source, destination = items(piece.buffer, f"V{block}"), items(target, f"V{block}")
        starts, positions, rest = piece.starts[rows], position[rows], lengths[rows] - block
        # What is copied at once stays in the processor's cache.
        step = _COPIED_AT_ONCE // block
        for first in range(0, len(rows), step):
            part = slice(first, first + step)
            destination[positions[part]] = source[starts[part]]
            destination[positions[part] + rest[part]] = source[starts[part] + rest[part]]
    for row in np.flatnonzero(lengths >= _LONG).tolist():
        start, at, length = int(piece.starts[row]), int(position[row]), int(lengths[row])
        target[at : at + length] = piece.buffer[start : start + length]
