"""Documents taken apart: for each field and BSON type, which rows have a value and where its bytes are.

What is stored here does not depend on the columns of a table. A row of a nested document counts the nested
documents of that field, so that every level is stored in the same way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.bulk.splicing import Bytes, Group, Positions, items, lines, piece_of, spliced

MAX_LEVELS: Final = 16
"""Documents and arrays that are nested more deeply are not taken apart: their column is JSON or VARIANT"""

TEXTS: Final = frozenset({rawbson.STRING, rawbson.SYMBOL})


@dataclass(frozen=True, slots=True)
class ValueRun:
    """Values that were found together: their rows, where they are, and which elements of their documents."""

    rows: Positions
    starts: Positions
    ends: Positions
    places: Positions


class ShreddedValues:
    """The values of one BSON type that a field has; of strings only the text."""

    __slots__ = ("chunks", "data", "ends", "inner", "kind", "places", "rows", "starts")

    def __init__(self, data: Bytes, kind: int, runs: Sequence[ValueRun], level: int) -> None:
        self.data = data
        self.kind = kind
        self.rows = _joined([run.rows for run in runs])
        self.starts = _joined([run.starts for run in runs])
        self.ends = _joined([run.ends for run in runs])
        if kind in TEXTS:
            self.starts, self.ends = self.starts + 4, self.ends - 1
        self.places = _joined([run.places for run in runs])
        self.chunks: Any = None
        """What `chunks.py` made of them"""
        self.inner: ShreddedDocuments | ShreddedItems | None = None
        if level < MAX_LEVELS:
            if kind == rawbson.DOCUMENT:
                self.inner = ShreddedDocuments(level + 1)
            elif kind == rawbson.ARRAY:
                self.inner = ShreddedItems(level + 1)

    def slices(self) -> list[bytes]:
        """The bytes of all values."""
        whole = self.data.data
        bounds = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [bytes(whole[start:end]) for start, end in bounds]

    def numbers(self, kind: str) -> npt.NDArray[Any]:
        """All values as numbers of a numpy type."""
        found: npt.NDArray[Any] = items(self.data, kind)[self.starts]
        return found

    def matrix(self, width: int) -> Bytes:
        """All values, of one width, as lines of bytes."""
        return lines(self.data, self.starts, width)

    def texts(self) -> pa.Array:
        """All values as a binary array."""
        count = len(self.rows)
        pieces = [piece_of(self.data, self.starts, self.ends - self.starts)]
        return spliced(count, [Group(np.arange(count), pieces)], pa.binary())


class ShreddedField:
    """The values of a field, or of the items of arrays, by their BSON type."""

    __slots__ = ("by_kind",)

    def __init__(self) -> None:
        self.by_kind: dict[int, ShreddedValues] = {}


class ShreddedDocuments:
    """The fields of some documents."""

    __slots__ = ("by_name", "count", "level")

    def __init__(self, level: int = 0) -> None:
        self.level = level
        self.count = 0
        self.by_name: dict[bytes, ShreddedField] = {}

    def inside(self) -> Iterable[ShreddedValues]:
        return (values for field in self.by_name.values() for values in field.by_kind.values())


class ShreddedItems:
    """The items of some arrays."""

    __slots__ = ("count", "field", "level", "sizes")

    def __init__(self, level: int) -> None:
        self.level = level
        self.count = 0
        self.sizes: Positions = np.empty(0, np.int64)
        """How many items each array has"""
        self.field = ShreddedField()

    def inside(self) -> Iterable[ShreddedValues]:
        return self.field.by_kind.values()


def _joined(parts: list[Positions]) -> Positions:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
