"""Writing the table's log: the next commit, checkpoints, and clearing away what they cover.

A commit is one new file with the next number; that it can be created only once makes it atomic. `deltalake`
makes commits too, but lists the whole log for each. A pipeline that follows a deployment makes several
commits a second, and after an hour each would take longer than everything else. It makes checkpoints from an
object for each file. So commits and checkpoints are written here, and `deltalake` makes the table.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from deltalake.exceptions import DeltaError

from tailrace import __version__
from tailrace.errors import HistoryError
from tailrace.lake.data_file import AddedFile
from tailrace.lake.delta_log import (
    COMMIT_DETAILS,
    KEPT,
    SHARDS,
    commit_name,
    delta_table,
    in_short,
    is_numbered,
)
from tailrace.lake.files.checkpoints import (
    LOG,
    LOG_HOURS,
    REMOVED_HOURS,
    newest_checkpoint,
    write_checkpoint,
)
from tailrace.lake.storage.log_store import LogStore
from tailrace.lake.table import HistoryTable
from tailrace.namespaces import KeptPeriods

_JSON: Final = json.JSONEncoder(separators=(",", ":"))
CHECKPOINT_COMMITS: Final = 100
"""A reader that opens the table reads the commits since the last checkpoint one by one"""
_FILES_PER_COMMIT: Final = 1000
"""A checkpoint holds all files, so it waits for a commit for every thousand of them"""
_PLAIN_WRITER: Final = 2
"""Writers of tables with a higher version have features of Delta to observe that Tailrace does not use"""


def write_commit(
    table: HistoryTable,
    operation: str,
    *,
    added: Sequence[AddedFile] = (),
    removed: Sequence[AddedFile] = (),
    changes_data: bool = True,
    transactions: Sequence[tuple[str, int]] = (),
    shards: Mapping[str, Any] | None = None,
    kept: KeptPeriods | None = None,
) -> bool:
    """Commit on top of the version that ``table`` shows; False if somebody else's commit came first.

    ``transactions`` are names of applications and their versions, ``shards`` those of the source from now on,
    if they have changed, and ``kept`` are the namespaces of the history, if these have. Durable when this
    returns.
    """
    now = time.time_ns() // 1_000_000
    # The number tells the commit from another one with the same content, of somebody else.
    details: dict[str, Any] = {"commit": uuid4().hex}
    if current := table.shards if shards is None else shards:
        details[SHARDS] = current
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now,
                "operation": operation,
                "operationParameters": {},
                "isBlindAppend": not removed,
                "engineInfo": f"tailrace/{__version__}",
                COMMIT_DETAILS: details,
            }
        }
    ]
    if kept is not None:
        metadata = table.log.table["metaData"]
        configuration = {**(metadata.get("configuration") or {}), KEPT: kept.to_text()}
        actions.append({"metaData": {**metadata, "configuration": configuration}})
    actions += (
        {"txn": {"appId": name, "version": version, "lastUpdated": now}} for name, version in transactions
    )
    actions += ({"remove": _removal(file, now, changes_data=changes_data)} for file in removed)
    actions += ({"add": _addition(file, changes_data=changes_data)} for file in added)
    text = "".join(_JSON.encode(action) + "\n" for action in actions)
    try:
        if added:
            table.store.settle()  # the files' names have to be there when the commit is
        is_first = table.store.create(commit_name(table.version + 1), text.encode())
    except OSError as error:
        raise HistoryError(f"the history in {table.place} cannot be written: {error}") from None
    table.refresh()
    return is_first


def _addition(file: AddedFile, *, changes_data: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": file.modified,
        "dataChange": changes_data,
        "stats": file.stats,
        "tags": file.tags,
    }


def _removal(file: AddedFile, now: int, *, changes_data: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "deletionTimestamp": now,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": file.size,
    }


def tidy_log(table: HistoryTable) -> bool:
    """Make a checkpoint if there are many commits since the last, and clear away what is older than an hour.

    Whether one was made. What it costs grows with the number of files, and so does the pause between two.
    """
    commits = max(CHECKPOINT_COMMITS, len(table.files) // _FILES_PER_COMMIT)
    if table.version - table.checkpoint < commits:
        return False
    try:
        make_checkpoint(table)
        _clear_log(table.store)
    except (DeltaError, OSError) as error:
        raise HistoryError(
            f"the log of the history in {table.place} cannot be tidied: {in_short(error)}"
        ) from None
    return True


def make_checkpoint(table: HistoryTable) -> None:
    """Write a checkpoint of the version that ``table`` shows."""
    log = table.log
    if log.table["protocol"]["minWriterVersion"] > _PLAIN_WRITER:
        delta_table(table.store).create_checkpoint()  # somebody gave the table a feature
        return
    limit = (time.time() - REMOVED_HOURS * 3600) * 1000
    actions = [{name: log.table[name]} for name in ("protocol", "metaData")]
    actions += ({"txn": {"appId": name, "version": number}} for name, number in log.transactions.items())
    write_checkpoint(
        table.store,
        log.version,
        actions=actions,
        removals=[removal for removal in log.removals().values() if removal.moment > limit],
        files=log.files.batches(),
    )


def _clear_log(store: LogStore) -> None:
    """Delete what is older than a checkpoint that is an hour old: no reader begins before that one."""
    files = list(store.list(LOG))
    limit = time.time() - LOG_HOURS * 3600
    oldest = newest_checkpoint(file.name for file in files if file.modified < limit)
    if oldest is not None:
        kept = f"{LOG}/{oldest.version:020d}"
        for file in files:
            if is_numbered(file.name) and file.name < kept:
                store.delete(file.name)
