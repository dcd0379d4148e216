"""Documents taken apart: for each field and BSON type, which rows have a value and its bytes.

What is stored here does not depend on the columns of a table. A row of a nested document counts the nested
documents of that field, so that every level is stored in the same way.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tailrace.bson import raw as rawbson
from tailrace.lake.bulk.splicing import Bytes, Group, Positions, items, lines, piece_of, spliced

MAX_LEVELS: Final = 16
"""Documents and arrays that are nested more deeply are not taken apart: their column is JSON or VARIANT"""

TEXTS: Final = frozenset({rawbson.STRING, rawbson.SYMBOL})

Target: TypeAlias = "tuple[int, int, Callable[[int], None], Callable[[bytes], None], ShreddedValues]"
"""Type, fixed size or -1, where to note row and value"""


@dataclass(frozen=True, slots=True)
class ValueRun:
    """Values that were found together: their rows, and where their bytes are; of strings only the text."""

    rows: Positions
    data: Bytes
    starts: Positions
    ends: Positions


class ShreddedValues:
    """The values of one BSON type that a field has: in runs, and after these one by one."""

    __slots__ = ("chunks", "inner", "kind", "rows", "runs", "slices")

    def __init__(self, kind: int, level: int) -> None:
        self.kind = kind
        self.runs: list[ValueRun] = []
        self.rows: list[int] = []
        self.slices: list[bytes] = []
        """The bytes of each value; of strings only the text"""
        self.chunks: Any = None
        """What `chunks.py` made of them"""
        self.inner: ShreddedDocuments | ShreddedItems | None = None
        if level < MAX_LEVELS:
            if kind == rawbson.DOCUMENT:
                self.inner = ShreddedDocuments(level + 1)
            elif kind == rawbson.ARRAY:
                self.inner = ShreddedItems(level + 1)

    def all_rows(self) -> Positions:
        """The rows of all values."""
        return np.concatenate([*[run.rows for run in self.runs], np.array(self.rows, np.int64)])

    def all_slices(self) -> list[bytes]:
        """The bytes of all values."""
        found = []
        for run in self.runs:
            whole = run.data.data
            bounds = zip(run.starts.tolist(), run.ends.tolist(), strict=True)
            found += [bytes(whole[start:end]) for start, end in bounds]
        return found + self.slices

    def numbers(self, kind: str) -> npt.NDArray[Any]:
        """All values as numbers of a numpy type."""
        single = np.frombuffer(b"".join(self.slices), kind)
        return np.concatenate([*[items(run.data, kind)[run.starts] for run in self.runs], single])

    def matrix(self, width: int) -> Bytes:
        """All values, of one width, as lines of bytes."""
        single = np.frombuffer(b"".join(self.slices), np.uint8).reshape(-1, width)
        return np.concatenate([*[lines(run.data, run.starts, width) for run in self.runs], single])

    def texts(self) -> pa.Array:
        """All values as a binary array."""
        parts = []
        for run in self.runs:
            pieces = [piece_of(run.data, run.starts, run.ends - run.starts)]
            count = len(run.rows)
            parts.append(spliced(count, [Group(np.arange(count), pieces)], pa.binary()))
        if self.slices:
            parts.append(pa.array(self.slices, pa.binary()))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


class ShreddedField:
    """The values of a field, or of the items of arrays, by their BSON type."""

    __slots__ = ("by_kind",)

    def __init__(self) -> None:
        self.by_kind: dict[int, ShreddedValues] = {}

    def values(self, kind: int, level: int) -> ShreddedValues:
        found = self.by_kind.get(kind)
        if found is None:
            found = self.by_kind[kind] = ShreddedValues(kind, level)
        return found


class ShreddedDocuments:
    """The fields of some documents."""

    __slots__ = ("by_name", "count", "heads", "level")

    def __init__(self, level: int = 0) -> None:
        self.level = level
        self.count = 0
        self.by_name: dict[bytes, ShreddedField] = {}
        self.heads: dict[bytes, Target] = {}
        """By the bytes of an element's type and name"""

    def values(self, kind: int, name: bytes) -> ShreddedValues:
        return self.by_name.setdefault(name, ShreddedField()).values(kind, self.level)

    def target(self, head: bytes) -> Target:
        found = self.heads[head] = _target(self.values(head[0], head[1:]))
        return found

    def inside(self) -> Iterable[ShreddedValues]:
        return (values for field in self.by_name.values() for values in field.by_kind.values())


class ShreddedItems:
    """The items of some arrays."""

    __slots__ = ("count", "field", "level", "sizes", "targets")

    def __init__(self, level: int) -> None:
        self.level = level
        self.count = 0
        self.sizes: list[int] = []
        """How many items each array has"""
        self.field = ShreddedField()
        self.targets: dict[int, Target] = {}

    def target(self, kind: int) -> Target:
        found = self.targets[kind] = _target(self.field.values(kind, self.level))
        return found

    def inside(self) -> Iterable[ShreddedValues]:
        return self.field.by_kind.values()


def _target(values: ShreddedValues) -> Target:
    kind = values.kind
    return kind, rawbson.FIXED_SIZE.get(kind, -1), values.rows.append, values.slices.append, values
