"""Read the table's Delta log: its files and positions.

Delta stores a table's state as one numbered JSON file for each commit, and checkpoints of many commits. The
first state is read by `deltalake`; from then on a reader only checks whether the next number exists, which
takes microseconds, and reads its few lines.
"""

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from tailrace.bson.dates import milliseconds_of
from tailrace.errors import HistoryError, StoreUnavailableError
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.data_file import AddedFile
from tailrace.lake.positions import BEGINS, THROUGH, position_names
from tailrace.lake.schema import FORMAT
from tailrace.lake.storage.log_store import LogStore, StoredFile

IDENTITY: Final = "tailrace.identity"
FORMAT_KEY: Final = "tailrace.format"
"""Entries of the table's configuration: whose history it is, and the format of its rows"""
_SERVER_VERSION: Final = "tailrace.serverVersion"
_COMPATIBILITY: Final = "tailrace.featureCompatibilityVersion"

_LOG: Final = "_delta_log"
_LAST_CHECKPOINT: Final = f"{_LOG}/_last_checkpoint"
COMMIT_DETAILS: Final = "tailrace"
"""The part of a commit's information that is Tailrace's own"""
SHARDS: Final = "shards"
_LAST_VERSION: Final = 10**20 - 1


def release_entries(release: StreamRelease) -> dict[str, str]:
    """The entries of the table's configuration about the release of the deployment."""
    return {_SERVER_VERSION: release.version, _COMPATIBILITY: release.series}


def commit_name(version: int) -> str:
    """The name of the file of a commit."""
    return f"{_LOG}/{version:020d}.json"


def is_table(store: LogStore) -> bool:
    """Whether there is a log; the list of its files may be long."""
    if store.head(commit_name(0)) is not None or store.head(_LAST_CHECKPOINT) is not None:
        return True
    return any(_is_of_table(file.name.removeprefix(f"{_LOG}/")) for file in store.list(_LOG))


def _is_of_table(name: str) -> bool:
    return name[:20].isdecimal() and name[20:21] == "."


def delta_table(store: LogStore) -> DeltaTable:
    """The table as `deltalake` sees it."""
    options = store.delta_options
    return DeltaTable(store.place, storage_options=None if options is None else dict(options))


def changed_by_others(path: str) -> HistoryError:
    """The error of a table whose files are not those that Tailrace wrote."""
    return HistoryError(
        f"the table in {path} was changed by another program, and its files are not in order any more; "
        "restore an older version of it, or remove it to start again"
    )


def check_format(path: str, found: str) -> None:
    """Raise `HistoryError` unless this release reads tables of the format ``found``."""
    if found != str(FORMAT):
        raise HistoryError(
            f"the history in {path} has format {found}, and this release of Tailrace has format {FORMAT}; "
            "build the history again with `tailrace pipeline`, or install the release that wrote it"
        )


def damaged_commit(path: str) -> HistoryError:
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

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._path = store.place
        self.version = -1
        self.identity = ""
        self.release = CURRENT_RELEASE
        self.files: dict[str, AddedFile] = {}
        self.transactions: dict[str, int] = {}
        self.shards: Mapping[str, Any] = {}
        """The shards of the source at the newest commit, if they may change"""
        self._checkpoint: str | None = None
        self._checkpoint_due = 0.0
        self._load()

    def refresh(self) -> bool:
        """Read what was committed since; return whether there was anything."""
        before = self.version
        while self._apply_next():
            pass
        if self.version == before and self._has_new_checkpoint() and self.checkpoint_version() > self.version:
            # A reader that did not refresh for long may find that the log before a checkpoint was deleted.
            self._load()
        return self.version != before

    def has_next(self) -> bool:
        """Whether there is a commit that this state does not show."""
        return self._store.head(commit_name(self.version + 1)) is not None

    def _has_new_checkpoint(self) -> bool:
        pause = self._store.checkpoint_seconds
        if pause:
            now = time.monotonic()
            if now < self._checkpoint_due:
                return False
            self._checkpoint_due = now + pause
        before, self._checkpoint = self._checkpoint, self._checkpoint_mark()
        return self._checkpoint != before

    def _load(self) -> None:
        self._checkpoint = self._checkpoint_mark()
        try:
            self._load_newest()
        except TableNotFoundError:
            raise HistoryError(f"there is no history in {self._path}") from None
        except (DeltaError, OSError) as error:
            self._check_commits(lambda file: is_commit(self._store.read(file.name)))
            if self._store.delta_options is not None and isinstance(error, OSError):
                raise StoreUnavailableError(
                    f"the object store of {self._path} does not answer: {in_short(error)}"
                ) from None
            raise HistoryError(f"the history in {self._path} cannot be read: {in_short(error)}") from None

    def _load_newest(self) -> None:
        table = delta_table(self._store)
        # A commit without content would pass for one without files, and its events would be missing.
        self._check_commits(lambda file: file.size > 0)
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
        self.shards = self._shards_at(self.version)

    def _shards_at(self, version: int) -> Mapping[str, Any]:
        with suppress(FileNotFoundError):
            for action in map(json.loads, self._store.read(commit_name(version)).splitlines()):
                if (information := action.get("commitInfo")) is not None:
                    return _shards_of(information)
        return {}

    def _commits(self) -> list[StoredFile]:
        """The commits since the last checkpoint, in order."""
        oldest = commit_name(self.checkpoint_version() + 1)
        found = [file for file in self._store.list(_LOG) if oldest <= file.name <= commit_name(_LAST_VERSION)]
        return sorted((file for file in found if file.name.endswith(".json")), key=lambda file: file.name)

    def _check_commits(self, is_whole: Callable[[StoredFile], bool]) -> None:
        """Raise `HistoryError` for the first commit since the last checkpoint that is not whole."""
        for file in self._commits():
            with suppress(FileNotFoundError):  # another process clears the log away
                if not is_whole(file):
                    raise damaged_commit(self._store.path_of(file.name))

    def removals(self) -> dict[str, int]:
        """When files were removed from the table, in milliseconds since 1970, as far as its log has it."""
        found: dict[str, int] = {}
        checkpoint = f"{_LOG}/{self.checkpoint_version():020d}.checkpoint.parquet"
        with suppress(FileNotFoundError), self._store.open(checkpoint) as source:
            for removed in pq.read_table(source, columns=["remove"]).column("remove").to_pylist():
                if removed is not None:
                    found[removed["path"]] = removed["deletionTimestamp"] or 0
        for file in self._commits():
            with suppress(FileNotFoundError):  # another process clears the log away
                for action in map(json.loads, self._store.read(file.name).splitlines()):
                    if (removed := action.get("remove")) is not None:
                        found[removed["path"]] = removed.get("deletionTimestamp", 0)
        return found

    def transaction_version(self, name: str) -> int | None:
        """The version of any application transaction; reads the table's state if it was loaded without it."""
        if name not in self.transactions:
            version = delta_table(self._store).transaction_version(name)
            if version is None:
                return None
            self.transactions[name] = version
        return self.transactions[name]

    def _apply_next(self) -> bool:
        name = commit_name(self.version + 1)
        try:
            content = self._store.read(name)
        except FileNotFoundError:
            return False
        if not is_commit(content):
            raise damaged_commit(self._store.path_of(name))
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
        elif (information := action.get("commitInfo")) is not None:
            self.shards = _shards_of(information)

    def _checkpoint_mark(self) -> str | None:
        found = self._store.head(_LAST_CHECKPOINT)
        return None if found is None else found.tag

    def checkpoint_version(self) -> int:
        """The number of the newest commit that a checkpoint covers; -1 if there is none."""
        try:
            return int(json.loads(self._store.read(_LAST_CHECKPOINT))["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1  # it is being replaced: the next refresh will find it


def _shards_of(information: Mapping[str, Any]) -> Mapping[str, Any]:
    """The shards in the information of a commit; commits of older releases have none."""
    shards: Mapping[str, Any] = information.get(COMMIT_DETAILS, {}).get(SHARDS, {})
    return shards


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
