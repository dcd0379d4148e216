"""Writing the table's log: the next commit, checkpoints, and clearing away what they cover.

A commit is one new file with the next number; that it can be created only once makes it atomic. `deltalake`
makes commits too, but lists the whole log for each. A pipeline that follows a deployment makes several
commits a second, and after an hour each would take longer than everything else. It makes checkpoints from an
object for each file. So commits and checkpoints are written here, and `deltalake` makes the table.
"""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import uuid4

from deltalake.exceptions import DeltaError

from tailrace import __version__
from tailrace.errors import HistoryError
from tailrace.lake.delta_log import KEPT
from tailrace.lake.files.checkpoints import (
    LOG,
    LOG_HOURS,
    REMOVED_HOURS,
    newest_checkpoint,
    write_checkpoint,
)
from tailrace.lake.files.table_log import (
    COMMIT_DETAILS,
    SHARDS,
    commit_name,
    delta_table,
    in_short,
    is_numbered,
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


class LoggedFile(Protocol):
    """What the log has of a data file."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def modified(self) -> int: ...
    @property
    def stats(self) -> str: ...
    @property
    def tags(self) -> dict[str, str]: ...
    @property
    def deletion_vector(self) -> Mapping[str, Any] | None: ...


class LoggedTable(Protocol):
    """What a commit needs of the table that it is made on top of."""

    @property
    def store(self) -> LogStore: ...
    @property
    def place(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def shards(self) -> Mapping[str, Any]: ...
    def refresh(self) -> bool: ...


def described(table: HistoryTable, kept: KeptPeriods) -> dict[str, Any]:
    """The description of a history that keeps other namespaces from now on."""
    metadata = table.log.table["metaData"]
    configuration = {**(metadata.get("configuration") or {}), KEPT: kept.to_text()}
    return {**metadata, "configuration": configuration}


def write_commit(
    table: LoggedTable,
    operation: str,
    *,
    added: Sequence[LoggedFile] = (),
    removed: Sequence[LoggedFile] = (),
    changes_data: bool = True,
    transactions: Sequence[tuple[str, int]] = (),
    shards: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
) -> bool:
    """Commit on top of the version that ``table`` shows; False if somebody else's commit came first.

    ``transactions`` are names of applications and their versions, ``shards`` those of the source from now on,
    ``metadata`` the description of the table from now on, ``protocol`` what its readers and writers have to
    know, if they have changed. Durable when this returns.
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
    actions += (
        {"txn": {"appId": name, "version": version, "lastUpdated": now}} for name, version in transactions
    )
    if protocol is not None:
        actions.append({"protocol": protocol})
    if metadata is not None:
        actions.append({"metaData": metadata})
    actions += ({"remove": _removal(file, now, changes_data=changes_data)} for file in removed)
    actions += ({"add": addition(file, changes_data=changes_data)} for file in added)
    text = "".join(_JSON.encode(action) + "\n" for action in actions)
    try:
        if added:
            table.store.settle()  # the files' names have to be there when the commit is
        is_first = table.store.create(commit_name(table.version + 1), text.encode())
    except OSError as error:
        raise HistoryError(f"the table in {table.place} cannot be written: {error}") from None
    table.refresh()
    return is_first


def addition(file: LoggedFile, *, changes_data: bool) -> dict[str, Any]:
    """The `add` of a file."""
    return {
        "path": file.path,
        "partitionValues": {},
        "size": file.size,
        "modificationTime": file.modified,
        "dataChange": changes_data,
        "stats": file.stats,
        "tags": file.tags,
        **_vector(file),
    }


def _removal(file: LoggedFile, now: int, *, changes_data: bool) -> dict[str, Any]:
    return {
        "path": file.path,
        "deletionTimestamp": now,
        "dataChange": changes_data,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": file.size,
        **_vector(file),
    }


def _vector(file: LoggedFile) -> dict[str, Any]:
    vector = file.deletion_vector
    return {} if vector is None else {"deletionVector": vector}


def tidy_log(table: HistoryTable) -> bool:
    """Make a checkpoint if there are many commits since the last, and clear away what is older than an hour.

    Whether one was made. What it costs grows with the number of files, and so does the pause between two.
    """
    commits = max(CHECKPOINT_COMMITS, len(table.files) // _FILES_PER_COMMIT)
    if table.version - table.checkpoint < commits:
        return False
    try:
        make_checkpoint(table)
        clear_log(table.store)
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
        removals=[removal for removal in log.removals() if removal.moment > limit],
        files=log.files.batches(),
    )


def clear_log(store: LogStore) -> None:
    """Delete what is older than a checkpoint that is an hour old: no reader begins before that one."""
    files = list(store.list(LOG))
    limit = time.time() - LOG_HOURS * 3600
    oldest = newest_checkpoint(file.name for file in files if file.modified < limit)
    if oldest is not None:
        kept = f"{LOG}/{oldest.version:020d}"
        for file in files:
            if is_numbered(file.name) and file.name < kept:
                store.delete(file.name)
