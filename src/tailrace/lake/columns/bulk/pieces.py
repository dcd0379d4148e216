"""What a writer makes of groups of alike documents: pieces that `splicing.py` joins."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from tailrace.lake.bulk.splicing import PADDING, Bytes, Piece, Positions
from tailrace.lake.columns.bulk.alike import AlikeGroup, Flags

Length: TypeAlias = int | Positions
"""Of all rows, or of each"""


class Written(NamedTuple):
    """A value of each document of a group."""

    pieces: Sequence[Piece]
    length: Length


class ApartError(Exception):
    """Some documents of a group cannot be written together with the others."""

    def __init__(self, rows: Flags, *, one_by_one: bool) -> None:
        """``rows`` are among those of the group; with ``one_by_one`` each of them is an exception."""
        super().__init__(rows)
        self.rows = rows
        self.one_by_one = one_by_one


def written_groups(
    groups: Iterable[AlikeGroup], write: Callable[[AlikeGroup], Sequence[Sequence[Piece]]]
) -> tuple[list[tuple[Positions, Sequence[Sequence[Piece]]]], list[Positions]]:
    """Write each group, in parts if need be: rows with the pieces of each column, and rows to read alone."""
    written: list[tuple[Positions, Sequence[Sequence[Piece]]]] = []
    odd: list[Positions] = []
    pending = list(groups)
    while pending:
        group = pending.pop()
        try:
            written.append((group.rows, write(group)))
        except ApartError as error:
            others = ~error.rows
            if error.one_by_one:
                odd.append(group.rows[error.rows])
            else:
                pending.append(group.chosen(error.rows))
            if others.any():
                pending.append(group.chosen(others))
    return written, odd


def all_of(group: AlikeGroup) -> Flags:
    return np.ones(len(group.rows), np.bool_)


def padded_lines(matrix: Bytes) -> Bytes:
    """The lines of a matrix one after the other, and padding."""
    return np.concatenate([matrix.ravel(), np.zeros(PADDING, np.uint8)])
