"""Conditions on the rows of a stream that a query evaluates where the rows are read."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.bson import raw as rawbson
from tailrace.bson.dates import MICROSECONDS, date_value
from tailrace.events.change_event import CHANGES
from tailrace.events.cluster_time import END_OF_TIME
from tailrace.lake.row_kinds import RowKind
from tailrace.log.shared_output import AnyRow
from tailrace.sources.conditions import EVERYTHING, EntryCondition

Flags = npt.NDArray[np.bool_]
Names = frozenset[str] | None

_TRANSACTIONS: Final = "admin.$cmd"
_LONG_AGO: Final = -(1 << 62)
_FAR_AWAY: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A row meets it if it meets every part; None stands for no condition on names."""

    after: int = 0
    through: int = END_OF_TIME
    """Cluster times, for the plan of intervals"""
    operations: Names = None
    databases: Names = None
    collections: Names = None
    first_wall: int = _LONG_AGO
    last_wall: int = _FAR_AWAY
    """Wall times in milliseconds, inclusive"""

    @property
    def has_names(self) -> bool:
        """Whether it is about operations, databases or collections."""
        return not (self.operations is None and self.databases is None and self.collections is None)

    @property
    def has_walls(self) -> bool:
        return self.first_wall > _LONG_AGO or self.last_wall < _FAR_AWAY

    @property
    def is_free(self) -> bool:
        """Whether every row of an interval meets it."""
        return not (self.has_names or self.has_walls)

    def accepts(self, row: AnyRow) -> bool:
        """Return whether a row meets it; a field that is missing meets no condition."""
        raw = row.raw
        if not self.after < row.cluster_time <= self.through:
            return False
        if self.has_names:
            names = rawbson.subdocument(raw, b"ns") or rawbson.EMPTY
            if not (
                _is_among(raw, b"operationType", self.operations)
                and _is_among(names, b"db", self.databases)
                and _is_among(names, b"coll", self.collections)
            ):
                return False
        if not self.has_walls:
            return True
        wall = rawbson.field(raw, b"wallTime")
        is_date = wall is not None and wall[0] == rawbson.DATE
        return is_date and wall is not None and self.first_wall <= date_value(wall[1]) <= self.last_wall

    def sees(self, kind: RowKind) -> bool:
        """Return whether document changes of a kind may meet it."""
        names = (kind.operation, self.operations), (kind.kind.database, self.databases)
        known = (*names, (kind.kind.collection, self.collections))
        return all(wanted is None or name in wanted for name, wanted in known)

    def wanted_walls(self, batch: pa.RecordBatch) -> Flags | None:
        """Return which rows of the history have such wall times; None if it does not say."""
        if not self.has_walls:
            return None
        column = batch.column("wall_time")
        milliseconds = pc.fill_null(column.cast(pa.int64()), 0).to_numpy() // MICROSECONDS
        is_there = column.is_valid().to_numpy(zero_copy_only=False)
        return np.asarray(
            is_there & (milliseconds >= self.first_wall) & (milliseconds <= self.last_wall), np.bool_
        )

    def wanted_names(self, batch: pa.RecordBatch) -> bool:
        """Return whether some rows of the history may meet it, by their names.

        Rows other than document changes may: a stream decides what it shows of them.
        """
        found = pc.invert(_are_among(batch, "operation", frozenset(CHANGES)))
        wanted = _are_among(batch, "operation", self.operations)
        wanted = pc.and_(wanted, _are_among(batch, "db", self.databases))
        wanted = pc.and_(wanted, _are_among(batch, "coll", self.collections))
        return bool(pc.any(pc.or_(found, wanted)).as_py())

    def entries(self) -> EntryCondition:
        """Return what entries have to be like if all wanted events are document changes."""
        if self.operations is None or not self.operations <= frozenset(CHANGES):
            return EVERYTHING
        names = None
        if self.databases is not None and self.collections is not None:
            pairs = {f"{db}.{coll}" for db in self.databases for coll in self.collections}
            names = frozenset({*pairs, _TRANSACTIONS})
        return EntryCondition(frozenset("iudc"), names)


ALL_ROWS: Final = RowCondition()


def accepted(blocks: Iterable[Sequence[AnyRow]], condition: RowCondition) -> Iterator[Sequence[AnyRow]]:
    """Leave out the rows that do not meet a condition."""
    for rows in blocks:
        yield rows if condition == ALL_ROWS else [row for row in rows if condition.accepts(row)]


def _is_among(document: bytes, name: bytes, wanted: Names) -> bool:
    return wanted is None or rawbson.text(document, rawbson.find(document, name)) in wanted


def _are_among(batch: pa.RecordBatch, name: str, wanted: Names) -> pa.BooleanArray:
    column = batch.column(name)
    if wanted is None:
        return pa.repeat(pa.scalar(value=True), len(column))
    return pc.is_in(column.cast(pa.string()), value_set=pa.array(sorted(wanted), pa.string()))
