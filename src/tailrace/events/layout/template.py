"""Byte strings as fixed pieces with named holes between them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import add
from typing import Any, Final, TypeAlias

from tailrace.bson import raw as rawbson

Hole: TypeAlias = str
"""The name of a place that is filled differently in each row"""

TOKEN: Final = "token"
"""the resume token as a BSON document"""
TIME: Final = "time"
"""the cluster time"""
TERM: Final = "term"
WALL: Final = "wall"
"""the wall time as BSON stores a date"""
DOCUMENT: Final = "document"
"""the whole document that was stored"""
KEY: Final = "key"
"""the document key"""
UPDATE: Final = "update"
"""the description of an update"""
TRANSACTION_NUMBER: Final = "transaction number"
SESSION: Final = "session"
INDEX: Final = "index"
"""an operation's position in its transaction"""

_pack_int32 = rawbson.INT32_LE.pack


class Template:
    """Fixed pieces and holes in turn: ``fixed[0] holes[0] fixed[1] ... fixed[n]``.

    >>> template = Template([b"a", b"b", KEY, b"c"])
    >>> template.fixed, template.holes
    ((b'ab', b'c'), ('key',))
    >>> template.bound({KEY: b"-"}).fixed
    (b'ab-c',)
    """

    __slots__ = ("_parts", "_size", "fixed", "holes")

    def __init__(self, pieces: Iterable[bytes | Hole]) -> None:
        fixed = [b""]
        holes: list[Hole] = []
        for piece in pieces:
            if isinstance(piece, bytes):
                fixed[-1] += piece
            else:
                holes.append(piece)
                fixed.append(b"")
        self.fixed = tuple(fixed)
        self.holes = tuple(holes)
        self._parts = [b""] * (2 * len(fixed))
        self._parts[1::2] = fixed
        self._parts[-1] += b"\0"
        self._size = sum(map(len, fixed)) + 5

    def pieces(self) -> Iterator[bytes | Hole]:
        """Fixed pieces and holes in order, without empty pieces."""
        for fixed, hole in zip(self.fixed, self.holes, strict=False):
            if fixed:
                yield fixed
            yield hole
        if self.fixed[-1]:
            yield self.fixed[-1]

    def bound(self, values: Mapping[Hole, bytes]) -> "Template":
        """The same with some holes filled once and for all."""
        return Template(
            piece if isinstance(piece, bytes) else values.get(piece, piece) for piece in self.pieces()
        )

    def document(self, values: Sequence[bytes]) -> bytes:
        """A BSON document of these fields; ``values`` has one item for each hole, in order."""
        parts = self._parts.copy()
        parts[0] = _pack_int32(self._size + sum(map(len, values)))
        parts[2::2] = values
        return b"".join(parts)

    def documents(self, columns: Sequence[Sequence[bytes]]) -> list[bytes]:
        """Many documents at once; ``columns`` has the values of each hole."""
        sizes: Iterable[int] = repeat(self._size)
        parts: list[Iterable[bytes]] = []
        for fixed, column in zip(self.fixed, columns, strict=False):
            sizes = map(add, sizes, map(len, column))
            if fixed:
                parts.append(repeat(fixed))
            parts.append(column)
        # No Python code runs for a row.
        return list(map(b"".join, zip(map(_pack_int32, sizes), *parts, repeat(self._parts[-1]))))

    def writer(
        self, arguments: str, expressions: Sequence[str], names: Mapping[str, Any]
    ) -> Callable[..., bytes]:
        r"""`document` as a function of ``arguments``, with an expression for each hole.

        The expressions may use ``names``. It is compiled, as the methods of a data class are: this function
        makes every event, and a loop over the holes would take half as long again.

        >>> Template([b"\x10a\0", KEY]).writer("number", ["number"], {})(bytes(4)).hex(" ")
        '0c 00 00 00 10 61 00 00 00 00 00 00'
        """
        lines = [f"    v{place} = {expression}" for place, expression in enumerate(expressions)]
        sizes = "".join(f" + len(v{place})" for place in range(len(expressions)))
        parts = ", ".join(f"f{place}, v{place}" for place in range(len(expressions)))
        source = "\n".join([
            f"def write({arguments}):",
            *lines,
            f"    return join((pack({self._size}{sizes}), {parts}, f{len(expressions)}))",
        ])  # fmt: skip
        scope = {**names, "join": b"".join, "pack": _pack_int32, "len": len}
        scope |= {f"f{place}": piece for place, piece in enumerate(self._parts[1::2])}
        exec(source, scope)
        write: Callable[..., bytes] = scope["write"]
        return write
