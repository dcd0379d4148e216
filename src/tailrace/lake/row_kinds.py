"""The kinds of the rows of a batch: operation, database, collection and UUID, read once for many rows."""

from enum import Enum
from functools import cache
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tailrace.events.change_event import EventKind, EventKinds
from tailrace.events.layout import event as events_layout
from tailrace.events.layout.event import NO_SESSION, ChangeLayout
from tailrace.events.memo import remember
from tailrace.events.oplog_entry import Head
from tailrace.events.stages.check_invalidate import INVALIDATING
from tailrace.lake.schema import CANONICAL

_OPS: Final = {"insert": "i", "update": "u", "replace": "u", "delete": "d"}
KIND_COLUMNS: Final = ("operation", "db", "coll", "uuid")


Codes = npt.NDArray[np.int64]


class Other(Enum):
    """Rows that are no document changes."""

    EVENT = "any other event"
    DEFERRED = "a deferred entry"


class RowKind:
    """Document changes of one type in one collection, as the history holds them."""

    __slots__ = ("head", "kind", "operation")

    def __init__(self, head: Head, kind: EventKind) -> None:
        self.head = head
        self.kind = kind
        self.operation = kind.operation_type

    def stored(self, session: int = NO_SESSION) -> ChangeLayout:
        """How the column `event` holds them."""
        return events_layout.layout.without_token.of_change(self.kind, CANONICAL, session)


class RowKinds:
    """The kinds found so far."""

    def __init__(self) -> None:
        self._kinds = EventKinds()
        self._heads: dict[tuple[str, str, bytes], Head] = {}
        self._known: dict[tuple[str | None, ...], RowKind | Other] = {}

    def of(self, batch: pa.RecordBatch) -> tuple[Codes, dict[int, RowKind | Other]]:
        """A number for each row, and the kinds that the numbers mean."""
        codes = np.zeros(batch.num_rows, np.int64)
        dictionaries = []
        for name in KIND_COLUMNS:
            column = batch.column(name)
            if not isinstance(column, pa.DictionaryArray):
                column = column.dictionary_encode()
            # One more than the values: null has a number too.
            codes *= len(column.dictionary) + 1
            indices = column.indices
            codes += (indices.fill_null(len(column.dictionary)) if indices.null_count else indices).to_numpy()
            dictionaries.append([*column.dictionary.to_pylist(), None])
        return codes, {int(code): self._kind_of(int(code), dictionaries) for code in np.unique(codes)}

    def _kind_of(self, code: int, dictionaries: list[list[str | None]]) -> RowKind | Other:
        facts: list[str | None] = []
        for values in reversed(dictionaries):
            code, index = divmod(code, len(values))
            facts.append(values[index])
        key = tuple(facts)
        return self._known[key] if key in self._known else remember(self._known, key, self._make(*facts))

    def _make(
        self, uuid: str | None, coll: str | None, db: str | None, operation: str | None
    ) -> RowKind | Other:
        if operation is None:
            return Other.DEFERRED
        op = _OPS.get(operation)
        if op is None or coll is None or uuid is None:
            return Other.EVENT
        facts = (op, f"{db}.{coll}", UUID(uuid).bytes)
        head = self._heads.get(facts) or remember(self._heads, facts, Head(*facts))
        return RowKind(head, self._kinds.of_head(head, operation))


@cache
def _ending() -> pa.StringArray:
    """The operations that may end a stream; made late, because Arrow imports pandas for it."""
    return pa.array(sorted(frozenset().union(*INVALIDATING.values())))


def commands_of(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows that may end a stream: those of drops and renames."""
    return rows.filter(pc.is_in(rows.column("operation").cast(pa.string()), value_set=_ending()))


def count_commands(rows: pa.Table) -> int:
    """How many rows may end a stream."""
    return sum(map(_count_ending, rows["operation"].chunks))


def _count_ending(operations: pa.Array) -> int:
    if isinstance(operations, pa.DictionaryArray):
        # Nearly always none of the few values is one, and the rows need not be looked at.
        if not pc.is_in(operations.dictionary, value_set=_ending()).true_count:
            return 0
        operations = operations.dictionary_decode()
    return int(pc.is_in(operations, value_set=_ending()).true_count)
