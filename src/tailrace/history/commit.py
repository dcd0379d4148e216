"""Making files part of the history, exactly once.

A commit carries the interval of cluster times it covers: its end is the version of an application
transaction, stored in the same atomic step as the files. A driver that dies between writing and committing
writes the same interval again; one that dies behind the commit finds the interval there and passes over it.
"""

from collections.abc import Sequence
from typing import Final

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from tailrace.errors import HistoryError
from tailrace.history.data_file import AddedFile
from tailrace.history.delta_log import PROGRESS
from tailrace.history.schema import SCHEMA
from tailrace.history.table import HistoryTable
from tailrace.model.cluster_time import in_words

_ATTEMPTS: Final = 5


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
        _check_order(table, added, after, through)
        delta = DeltaTable(str(table.path))
        if delta.version() != table.version:
            continue
        try:
            delta.create_write_transaction(
                [add_action(file) for file in added],
                "append",
                SCHEMA,
                commit_properties=CommitProperties(app_transactions=[Transaction(PROGRESS, through)]),
            )
        except CommitFailedError:
            continue  # somebody else moved the history on: look again where it ends
        table.refresh()
        return True
    raise HistoryError(f"another pipeline writes to the history in {table.path}; stop one of them")


def add_action(file: AddedFile, *, data_change: bool = True) -> AddAction:
    """A file as `deltalake` takes it."""
    return AddAction(file.path, file.size, {}, file.modified, data_change, file.stats)


def _check_order(table: HistoryTable, added: Sequence[AddedFile], after: int, through: int) -> None:
    """Rows outside of their interval, or out of order, would be lost to streams: better to stop."""
    end = table.files[-1].last_token if table.files else ""
    last_time = after
    for file in added:
        if file.first_time <= last_time or file.last_time > through or file.first_token <= end:
            raise HistoryError(f"the file {file.path} does not lie in its place in the history")
        end, last_time = file.last_token, file.last_time
