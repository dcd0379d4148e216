"""Changing what the history holds, in steps that happen as a whole or not at all.

A commit of new rows carries the interval of cluster times it covers: its end is the version of an application
transaction, stored in the same atomic step as the files. A driver that dies between writing and committing
writes the same interval again; one that dies behind the commit finds the interval there and passes over it.
"""

import os
import time
from collections.abc import Sequence
from typing import Final, TypeAlias

from deltalake import CommitProperties, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from tailrace.errors import HistoryError
from tailrace.history.data_file import AddedFile
from tailrace.history.delta_log import BEGINNING, PROGRESS
from tailrace.history.schema import SCHEMA
from tailrace.history.table import HistoryTable
from tailrace.model.cluster_time import in_words

_ATTEMPTS: Final = 10

Action: TypeAlias = AddAction | RemoveAction


def commit(table: HistoryTable, added: Sequence[AddedFile], *, after: int, through: int) -> bool:
    """Add the rows of the interval (after, through]; False if the history holds it already.

    An interval without rows is committed too: that nothing happened is worth knowing. ``table`` shows the new
    version afterwards. Raises `HistoryError` if the history does not end where the interval begins.
    """
    for _ in range(_ATTEMPTS):
        table.refresh()
        if table.through >= through:
            return False
        if table.through != after:
            raise HistoryError(
                f"the checkpoint and the history disagree: the history in {table.path} goes up to "
                f"{in_words(table.through)}, and the next interval begins at {in_words(after)}; remove the "
                "checkpoint, or the history, to begin anew"
            )
        _check_files(table, added, after, through)
        actions: list[Action] = [_add(file, changes_data=True) for file in added]
        if _write(table, actions, Transaction(PROGRESS, through)):
            return True
    raise HistoryError(f"another pipeline writes to the history in {table.path}; stop one of them")


def change_files(
    table: HistoryTable,
    added: Sequence[AddedFile],
    *,
    removed: Sequence[AddedFile],
    begins: int | None = None,
) -> bool:
    """Put files in the place of others that have the same rows, or let the oldest go.

    In the latter case the history ``begins`` later. False if some of the files are no longer part of it, and
    nothing was changed.
    """
    now = time.time_ns() // 1_000_000
    for _ in range(_ATTEMPTS):
        table.refresh()
        held = {file.path for file in table.files}
        if not held.issuperset(file.path for file in removed):
            return False
        _check_presence(table, added)
        for file in removed:
            os.utime(table.path / file.path)  # the grace period begins
        changes_data = begins is not None
        actions: list[Action] = [
            *(RemoveAction(file.path, changes_data, now, file.size, {}) for file in removed),
            *(_add(file, changes_data=False) for file in added),
        ]
        if _write(table, actions, None if begins is None else Transaction(BEGINNING, begins)):
            return True
    return False


def _write(table: HistoryTable, actions: list[Action], transaction: Transaction | None) -> bool:
    """One attempt at a commit on the version that ``table`` shows; False if another one came first."""
    delta = table.delta()
    if delta is None:
        return False
    properties = CommitProperties(app_transactions=[] if transaction is None else [transaction])
    try:
        delta.create_write_transaction(actions, "append", SCHEMA, commit_properties=properties)
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise HistoryError(f"the history in {table.path} cannot be written: {error}") from None
    table.refresh()
    return True


def _add(file: AddedFile, *, changes_data: bool) -> AddAction:
    return AddAction(file.path, file.size, {}, file.modified, changes_data, file.stats)


def _check_files(table: HistoryTable, added: Sequence[AddedFile], after: int, through: int) -> None:
    """Rows that are outside of their interval or out of order would be lost to streams."""
    end = table.files[-1].last_token if table.files else ""
    last_time = after
    for file in added:
        if file.first_time <= last_time or file.last_time > through or file.first_token <= end:
            raise HistoryError(f"the file {file.path} does not lie in its place in the history")
        end, last_time = file.last_token, file.last_time
    _check_presence(table, added)


def _check_presence(table: HistoryTable, added: Sequence[AddedFile]) -> None:
    for file in added:
        if not (table.path / file.path).exists():
            raise HistoryError(f"the file {file.path} was cleared away before it was committed")
