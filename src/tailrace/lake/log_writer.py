"""Writing the table's log: the next commit, checkpoints, and clearing away what they cover.

A commit is one new file with the next number; that it can be created only once makes it atomic. `deltalake`
makes commits too, but lists the whole log for each. A pipeline that follows a deployment makes several
commits a second, and after an hour each would take longer than everything else. So commits are written here,
and `deltalake` makes the table and its checkpoints.
"""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tailrace import __version__
from tailrace.errors import HistoryError
from tailrace.lake.data_file import AddedFile
from tailrace.lake.delta_log import in_short
from tailrace.lake.table import HistoryTable

CHECKPOINT_COMMITS: Final = 100
"""A reader that opens the table reads the commits since the last checkpoint one by one"""


def write_commit(
    table: HistoryTable,
    operation: str,
    *,
    added: Sequence[AddedFile] = (),
    removed: Sequence[AddedFile] = (),
    changes_data: bool = True,
    transactions: Sequence[tuple[str, int]] = (),
) -> bool:
    """Commit on top of the version that ``table`` shows; False if somebody else's commit came first.

    ``transactions`` are names of applications and their versions. On disk when this returns.
    """
    now = time.time_ns() // 1_000_000
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": now,
                "operation": operation,
                "operationParameters": {},
                "isBlindAppend": not removed,
                "engineInfo": f"tailrace/{__version__}",
            }
        }
    ]
    actions += (
        {"txn": {"appId": name, "version": version, "lastUpdated": now}} for name, version in transactions
    )
    actions += ({"remove": _removal(file, now, changes_data=changes_data)} for file in removed)
    actions += ({"add": _addition(file, changes_data=changes_data)} for file in added)
    text = "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)
    try:
        if added:
            _sync(table.path)  # the files' names have to be there when the commit is
        is_first = _create(table.path, f"{table.version + 1:020d}.json", text.encode())
    except OSError as error:
        raise HistoryError(f"the history in {table.path} cannot be written: {error}") from None
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


def _create(folder: Path, name: str, content: bytes) -> bool:
    """Create a file of the log with its content at once; False if there is one of that name."""
    log = folder / "_delta_log"
    temporary = folder / f".{name}.{os.getpid()}.{time.monotonic_ns()}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, log / name)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    _sync(log)
    return True


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def tidy_log(table: HistoryTable) -> bool:
    """Make a checkpoint if there are many commits since the last, and clear away what is older than an hour.

    Whether one was made.
    """
    if table.version - table.checkpoint < CHECKPOINT_COMMITS:
        return False
    try:
        delta = DeltaTable(str(table.path))
        delta.create_checkpoint()
        delta.cleanup_metadata()
    except (DeltaError, OSError) as error:
        raise HistoryError(
            f"the log of the history in {table.path} cannot be tidied: {in_short(error)}"
        ) from None
    return True
