"""Which changes of an interval a table lacks, and what becomes of its copy."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tailrace.lake.columns.kinds import TableKind
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.grouping import FileChanges, changes_by_file, small_past
from tailrace.lake.mirror.merge import CLEAR, RowChange, join_past
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import LETTERS
from tailrace.pipeline.mirror.changes import REPLACED, CollectionChanges


@dataclass(frozen=True, slots=True)
class TableChanges:
    """What is to be done to a table."""

    before: CopyState
    state: CopyState
    """The state of the copy, before and after"""
    is_cleared: bool
    """Whether the documents before are gone"""
    changes: Sequence[RowChange]

    @property
    def is_any(self) -> bool:
        return bool(self.changes) or self.is_cleared or self.state != self.before


def lacking_changes(
    collection: CollectionChanges, state: CopyState, through: int, kind: TableKind
) -> TableChanges:
    """What a table lacks whose position is ``through``.

    After a restart it may be ahead of the mirror as a whole. A table with a past also gets the changes before
    its collection was cleared.
    """
    after, is_cleared = _state_after(state, collection, through)
    changes = collection.changes
    last = _last_clear(changes)
    chosen = _of_copy(changes[last + 1 :], after, through)
    if kind.has_past and is_cleared:
        chosen = [*_before(changes[: last + 1], state, through), *chosen]
    return TableChanges(state, after, is_cleared, chosen)


def groups_of(table: MirrorTable, lacking: TableChanges) -> list[FileChanges]:
    """The changes of a table by its files; without a past, files that are cleared are not read."""
    if not lacking.is_cleared:
        return changes_by_file(table.live, lacking.state, lacking.changes)
    if table.kind.has_past:
        return changes_by_file(table.live, lacking.before, lacking.changes)
    return changes_by_file((), lacking.state, lacking.changes)


def joined_past(table: MirrorTable) -> tuple[list[MirrorFile], list[MirrorFile]]:
    """The small files of past rows, if there are many, and the files that have their rows."""
    small: list[MirrorFile] = []
    joined: list[MirrorFile] = []
    for part, (store, schema) in enumerate(zip(table.stores, table.columns.schemas, strict=True)):
        found = small_past([file for file in table.past if file.is_letters == (part == LETTERS)])
        small += found
        joined += join_past(store, found, schema, name="joined")
    return small, joined


def _state_after(state: CopyState, collection: CollectionChanges, through: int) -> tuple[CopyState, bool]:
    """The state of a copy after a drop or a rename, and whether the table is emptied by it.

    ``through`` is the position of the table: what is not after it was applied before a restart.
    """
    time = max(collection.emptied, collection.replaced)
    is_newer = all(copied.as_of >= time for copied in state.done.values())
    if time <= through or (is_newer and (state.done or state.is_planned)):
        return state, False  # nothing of the kind, or the copy was made after it, or will be
    is_empty = collection.emptied > collection.replaced
    is_all_older = all(copied.as_of < time for copied in state.done.values())
    if is_empty and is_all_older and (state.is_complete or not state.is_planned):
        # A transaction that creates a collection writes to it at the same cluster time.
        return CopyState.empty_at(time - 1), True
    return CopyState(), True


def _last_clear(changes: Sequence[RowChange]) -> int:
    return max((place for place, change in enumerate(changes) if change.kind == CLEAR), default=-1)


def _of_copy(changes: Iterable[RowChange], state: CopyState, through: int) -> list[RowChange]:
    """The changes that the copy does not have."""
    return [
        change for change in changes if change.time > through and state.applies(change.key, change.visible)
    ]


def _before(changes: Sequence[RowChange], state: CopyState, through: int) -> list[RowChange]:
    """The changes up to the last one that clears the table, with those that clear it."""
    clears = [place for place, change in enumerate(changes) if change.kind == CLEAR]
    found = _of_copy(changes[: clears[0]], state, through)
    for place, following in pairwise([*clears, len(changes)]):
        if changes[place].time > through:
            found.append(changes[place])
        between = _of_copy(changes[place + 1 : following], state, through)
        if changes[place].payload == REPLACED:
            # The documents of a collection that got the name are not known, unless they were read after that.
            between = [change for change in between if state.has(change.key, changes[place].time)]
        found += between
    return found
