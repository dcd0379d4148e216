"""Rows that are held until they are read, some of them in a file if they are many."""

from collections.abc import Iterator
from typing import Final

from tailrace.mongod.language.aggregation.memory.budget import ROW_OVERHEAD, StageMemory
from tailrace.mongod.language.aggregation.memory.spill_file import Part, SpillFile
from tailrace.mongod.language.aggregation.rows import Document, Row, pack, unpack
from tailrace.pacing import tick

KEPT_DECODED: Final = 64 * 1024
"""How many bytes of rows are held together with their values, which take many times as much."""


class HeldRows:
    """Append rows, then read them any number of times."""

    def __init__(self, memory: StageMemory, limit: int) -> None:
        """Above ``limit`` bytes rows are stored in a file."""
        self._holding = memory.hold(limit)
        self._file = SpillFile(memory)
        self._parts: list[Part] = []
        self._rows: list[Row] = []
        self._count = 0
        self.size = 0
        """What all rows together count in memory."""

    def __len__(self) -> int:
        return self._count

    def append(self, row: Row) -> None:
        size = len(row.stored) + ROW_OVERHEAD
        self.size += size
        self._count += 1
        if self.size > KEPT_DECODED:
            row.forget_values()
        self._rows.append(row)
        if self._holding.add(size):
            rows, self._rows = self._rows, []
            self._parts.append(self._file.write(map(pack, rows)))
            self._holding.clear()

    def rows(self) -> Iterator[Row]:
        """All rows in the order they were added."""
        for part in self._parts:
            yield from map(unpack, self._file.read(part))
        yield from self._rows

    def __iter__(self) -> Iterator[Document]:
        for row in self.rows():
            tick()
            # The row itself does not hold what it decodes: the next reader may be much later.
            yield Row(raw=row.raw).document if row.is_packed else row.document

    def close(self) -> None:
        """Release memory and remove the file."""
        self._rows = []
        self._parts = []
        self._holding.close()
        self._file.close()
