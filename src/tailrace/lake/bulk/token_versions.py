"""The tokens of document changes in other versions than the one that the history stores.

The versions differ in what is around the time, the index within the transaction and the digits of the key. A
token with type bits is not rewritten here: its bits differ as well.
"""

from typing import Final

import numpy as np

from tailrace.events.change_event import EventKind
from tailrace.events.event_token import index_hex
from tailrace.events.layout.token import change_token
from tailrace.lake.bulk.kernel import KernelRewriter
from tailrace.lake.bulk.splicing import Piece, Slices, items, lines
from tailrace.lake.schema import TOKEN_VERSION

_TIME_DIGITS: Final = 16
_INDEX_SIZES: Final = np.zeros(1 << 16, np.int64)
for _index in (0, 1, 1 << 7, 1 << 15, 1 << 23):
    _INDEX_SIZES[int.from_bytes(index_hex(_index)[:2], "little")] = len(index_hex(_index))
_INDEX_SIZES.flags.writeable = False
"""By its first two digits, how many digits an index has"""
_SIZES_BY_DIGITS: Final = [
    (index_hex(index)[:2], len(index_hex(index))) for index in (0, 1, 1 << 7, 1 << 15, 1 << 23)
]


class TokenRewriter:
    """Rewrites the tokens of one kind of change."""

    __slots__ = ("_shown", "_stored")

    def __init__(self, kind: EventKind, version: int) -> None:
        self._stored = kind.token.fixed
        self._shown = change_token(kind.operation_type, kind.uuid, version).fixed

    @property
    def parts(self) -> KernelRewriter:
        """For the compiled kernel."""
        return self._stored, self._shown, _SIZES_BY_DIGITS

    def pieces(self, texts: Slices) -> list[Piece]:
        """The texts in the other version, for `splicing.py`; ``texts`` are stored ones."""
        first, second, third, last = self._stored
        buffer = texts.buffer
        time = texts.starts + len(first)
        index = time + _TIME_DIGITS + len(second)
        index_size = _INDEX_SIZES[items(buffer, "<u2")[index]]
        key = index + index_size + len(third)
        key_size = texts.starts + texts.lengths - len(last) - key
        values: list[Piece] = [
            lines(buffer, time, _TIME_DIGITS),
            Slices(buffer, index, index_size),
            Slices(buffer, key, key_size),
        ]
        pieces: list[Piece] = [self._shown[0]]
        for value, fixed in zip(values, self._shown[1:], strict=True):
            pieces += (value, fixed)
        return pieces


def rewriter_of(kind: EventKind, version: int) -> TokenRewriter | None:
    """What writes the tokens of a version; None if they are stored as they are shown."""
    return None if version == TOKEN_VERSION else TokenRewriter(kind, version)
