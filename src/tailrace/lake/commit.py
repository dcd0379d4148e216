"""Change the history in atomic steps.

A commit of new rows carries the interval of cluster times it covers: its end is the version of an application
transaction, stored in the same atomic step as the files. A driver that dies between writing and committing
writes the same interval again; one that dies after the commit finds the interval there and skips it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.errors import HistoryError
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_mark import EntryMark
from tailrace.lake.data_file import AddedFile
from tailrace.lake.log_writer import described, tidy_log, write_commit
from tailrace.lake.positions import BEGINS, THROUGH, mark_transactions, position_transactions
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import NamespaceChoice

_ATTEMPTS: Final = 10
_CHECKPOINT_ANYWAY: Final = 1000
"""Commits after which the log is tidied here, if nothing else does it"""


def commit(
    table: HistoryTable,
    added: Sequence[AddedFile],
    *,
    after: int,
    through: int,
    newest: Mapping[str, EntryMark] | None = None,
    shards: Mapping[str, Any] | None = None,
) -> bool:
    """Add the rows of the interval (after, through]; False if the history holds it already.

    ``newest`` has the mark of the newest entry of each shard that has entries in the interval, ``shards`` are
    those of the source at its end, if they may change. An interval without rows is committed too, so that
    `through` moves. ``table`` shows the new version afterwards. Raises `HistoryError` if the history does not
    end where the interval begins.
    """
    transactions = position_transactions(THROUGH, through)
    for shard, mark in (newest or {}).items():
        transactions += mark_transactions(shard, mark)
    for _ in range(_ATTEMPTS):
        table.refresh()
        if table.through >= through:
            return False
        if table.through != after:
            raise HistoryError(
                f"the checkpoint and the history disagree: the history in {table.place} goes up to "
                f"{in_words(table.through)}, and the next interval begins at {in_words(after)}; remove the "
                "checkpoint, or the history, to start again"
            )
        _check_files(table, added, after, through)
        if write_commit(table, "WRITE", added=added, transactions=transactions, shards=shards):
            if table.version % _CHECKPOINT_ANYWAY == 0:
                tidy_log(table)
            return True
    raise HistoryError(f"another pipeline writes to the history in {table.place}; stop one of them")


def begin_later(table: HistoryTable, begins: int) -> bool:
    """Let a history that has nothing yet begin later; return False, and do nothing, if it has something."""
    positions = position_transactions(THROUGH, begins) + position_transactions(BEGINS, begins)
    for _ in range(_ATTEMPTS):
        table.refresh()
        if table.files or table.through != table.begins:
            return False
        if table.begins >= begins or write_commit(table, "WRITE", transactions=positions):
            return True
    return False


def change_files(
    table: HistoryTable,
    added: Sequence[AddedFile],
    *,
    removed: Sequence[AddedFile],
    begins: int | None = None,
) -> bool:
    """Replace files by others that have the same rows, or remove the oldest ones.

    In the latter case the history ``begins`` later. Return False, and change nothing, if some of the files
    are no longer part of it.
    """
    for _ in range(_ATTEMPTS):
        table.refresh()
        if not table.files.holds([file.path for file in removed]):
            return False
        _check_presence(table, added)
        if begins is None:
            is_done = write_commit(table, "OPTIMIZE", added=added, removed=removed, changes_data=False)
        else:
            is_done = write_commit(
                table, "DELETE", removed=removed, transactions=position_transactions(BEGINS, begins)
            )
        if is_done:
            return True
    return False


def keep_more(
    table: HistoryTable,
    choice: NamespaceChoice,
    *,
    since: int,
    added: Sequence[AddedFile] = (),
    removed: Sequence[AddedFile] = (),
) -> bool:
    """Keep more namespaces after the cluster time ``since``.

    If that is before the end of the history, ``added`` have all rows from there to the end, and replace
    ``removed``. Return False, and change nothing, if another process has changed the history meanwhile.
    """
    if not table.files.holds([file.path for file in removed]):
        return False
    _check_presence(table, added)
    kept = table.kept.widened(choice, since)
    return write_commit(table, "WRITE", added=added, removed=removed, metadata=described(table, kept))


def _check_files(table: HistoryTable, added: Sequence[AddedFile], after: int, through: int) -> None:
    """Rows that are outside of their interval or out of order would be lost to streams."""
    end = table.files[-1].last_token if table.files else ""
    last_time = after
    for file in added:
        if file.first_time <= last_time or file.last_time > through or file.first_token <= end:
            raise HistoryError(
                f"the file {file.path} is outside of its interval, or not after the last row of the history"
            )
        end, last_time = file.last_token, file.last_time
    _check_presence(table, added)


def _check_presence(table: HistoryTable, added: Sequence[AddedFile]) -> None:
    for file in added:
        if table.store.head(file.path) is None:
            raise HistoryError(f"the file {file.path} was deleted before it was committed")
