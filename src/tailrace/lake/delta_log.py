"""Read the table's Delta log: its files and positions.

Delta stores a table's state as one numbered JSON file for each commit, and checkpoints of many commits. The
first state is read by `deltalake`; from then on a reader only checks whether the next number exists, which
takes microseconds, and reads its few lines.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tailrace.bson.dates import milliseconds_of
from tailrace.errors import HistoryError
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.data_file import AddedFile
from tailrace.lake.positions import BEGINS, THROUGH, position_names
from tailrace.lake.schema import FORMAT

IDENTITY: Final = "tailrace.identity"
FORMAT_KEY: Final = "tailrace.format"
"""Entries of the table's configuration: whose history it is, and the format of its rows"""
_SERVER_VERSION: Final = "tailrace.serverVersion"
_COMPATIBILITY: Final = "tailrace.featureCompatibilityVersion"

_LOG: Final = "_delta_log"
_LAST_CHECKPOINT: Final = "_last_checkpoint"


def release_entries(release: StreamRelease) -> dict[str, str]:
    """The entries of the table's configuration about the release of the deployment."""
    return {_SERVER_VERSION: release.version, _COMPATIBILITY: release.series}


def is_table(path: Path) -> bool:
    return DeltaTable.is_deltatable(str(path))


def changed_by_others(path: Path) -> HistoryError:
    """The error of a table whose files are not those that Tailrace wrote."""
    return HistoryError(
        f"the table in {path} was changed by another program, and its files are not in order any more; "
        "restore an older version of it, or remove it to start again"
    )


def check_format(path: Path, found: str) -> None:
    """Raise `HistoryError` unless this release reads tables of the format ``found``."""
    if found != str(FORMAT):
        raise HistoryError(
            f"the history in {path} has format {found}, and this release of Tailrace has format {FORMAT}; "
            "build the history again with `tailrace pipeline`, or install the release that wrote it"
        )


def damaged_commit(path: Path) -> HistoryError:
    """The error of a commit that is not as it was written."""
    return HistoryError(f"the file {path} of the history is damaged; restore it, or begin a new history")


def is_commit(content: bytes) -> bool:
    """Whether a file of the log has the form of a commit: lines of JSON documents, at least one."""
    try:
        actions = [json.loads(line) for line in content.splitlines()]
    except ValueError:
        return False
    return bool(actions) and all(isinstance(action, dict) for action in actions)


def in_short(error: Exception) -> str:
    """The first line of an error; those of `deltalake` have a stack trace after it."""
    return str(error).strip().partition("\n")[0]


class DeltaLog:
    """The state of a table at one version, which `refresh` moves to the newest."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path / _LOG
        self.version = -1
        self.identity = ""
        self.release = CURRENT_RELEASE
        self.files: dict[str, AddedFile] = {}
        self.transactions: dict[str, int] = {}
        self._checkpoint: tuple[int, int] | None = None
        self._load()

    def refresh(self) -> bool:
        """Read what was committed since; return whether there was anything."""
        before = self.version
        while self._apply_next():
            pass
        if self.version == before and self._checkpoint_mark() != self._checkpoint:
            # A reader that did not refresh for long may find that the log before a checkpoint was deleted.
            self._checkpoint = self._checkpoint_mark()
            if self.checkpoint_version() > self.version:
                self._load()
        return self.version != before

    def _load(self) -> None:
        self._checkpoint = self._checkpoint_mark()
        try:
            self._load_newest()
        except TableNotFoundError:
            raise HistoryError(f"there is no history in {self._path}") from None
        except (DeltaError, OSError) as error:
            self._check_commits(lambda path: is_commit(path.read_bytes()))
            raise HistoryError(f"the history in {self._path} cannot be read: {in_short(error)}") from None

    def _load_newest(self) -> None:
        table = DeltaTable(str(self._path))
        # A commit without content would pass for one without files, and its events would be missing.
        self._check_commits(lambda path: path.stat().st_size > 0)
        configuration = table.metadata().configuration
        identity = configuration.get(IDENTITY)
        if identity is None:
            raise HistoryError(f"the table in {self._path} is no history of Tailrace")
        check_format(self._path, configuration.get(FORMAT_KEY, "1"))
        names = (*position_names(THROUGH), *position_names(BEGINS))
        versions = {name: table.transaction_version(name) for name in names}
        if None in versions.values():
            raise HistoryError(f"the table in {self._path} is no history of Tailrace")
        self.version = table.version()
        self.identity = identity
        if (version := configuration.get(_SERVER_VERSION)) is not None:
            self.release = StreamRelease.of_server(version, configuration.get(_COMPATIBILITY))
        self.transactions = {name: version or 0 for name, version in versions.items()}
        found = _files(table)
        if found is None:
            raise changed_by_others(self._path)
        self.files = {file.path: file for file in found}

    def _check_commits(self, is_whole: Callable[[Path], bool]) -> None:
        """Raise `HistoryError` for the first commit since the last checkpoint that is not whole."""
        covered = self.checkpoint_version()
        for path in sorted(self._log.glob("*.json")):
            with suppress(FileNotFoundError):  # another process clears the log away
                if path.stem.isdecimal() and int(path.stem) > covered and not is_whole(path):
                    raise damaged_commit(path)

    def transaction_version(self, name: str) -> int | None:
        """The version of any application transaction; reads the table's state if it was loaded without it."""
        if name not in self.transactions:
            version = DeltaTable(str(self._path)).transaction_version(name)
            if version is None:
                return None
            self.transactions[name] = version
        return self.transactions[name]

    def _apply_next(self) -> bool:
        path = self._log / f"{self.version + 1:020d}.json"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return False
        if not is_commit(content):
            raise damaged_commit(path)
        for line in content.splitlines():
            self._apply(json.loads(line))
        self.version += 1
        return True

    def _apply(self, action: dict[str, Any]) -> None:
        if (added := action.get("add")) is not None:
            try:
                self.files[added["path"]] = AddedFile.from_action(added)
            except (KeyError, TypeError):
                raise changed_by_others(self._path) from None
        elif (removed := action.get("remove")) is not None:
            self.files.pop(removed["path"], None)
        elif (transaction := action.get("txn")) is not None:
            self.transactions[transaction["appId"]] = transaction["version"]

    def _checkpoint_mark(self) -> tuple[int, int] | None:
        try:
            found = (self._log / _LAST_CHECKPOINT).stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_size

    def checkpoint_version(self) -> int:
        """The number of the newest commit that a checkpoint covers; -1 if there is none."""
        try:
            return int(json.loads((self._log / _LAST_CHECKPOINT).read_text())["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1  # it is being replaced: the next refresh will find it


def _files(table: DeltaTable) -> list[AddedFile] | None:
    """The files with the ranges of their statistics; None if one has none."""
    rows = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    if any(row.get("min.token") is None or row.get("max.token") is None for row in rows):
        return None
    return [
        AddedFile(
            path=row["path"],
            size=row["size_bytes"],
            rows=row["num_records"],
            first_token=row["min.token"],
            last_token=row["max.token"],
            first_wall=_milliseconds(row.get("min.wall_time")),
            last_wall=_milliseconds(row.get("max.wall_time")),
            walls_missing=row.get("null_count.wall_time") or 0,
            modified=row["modification_time"],
        )
        for row in rows
    ]


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else milliseconds_of(moment)
