"""Read the Delta log of a table: the state of one version, and the next ones.

Delta stores a table's state as one numbered JSON file for each commit, and checkpoints of many commits. A
reader begins with the newest checkpoint and the commits since; from then on it only checks whether the next
number exists, which takes microseconds, and reads its few lines.

What the files of a table are is up to its kind: `lake/delta_log.py` has those of a history,
`lake/mirror/mirror_log.py` those of a collection.
"""

import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from tailrace.errors import HistoryError
from tailrace.lake.files.checkpoints import (
    LAST_CHECKPOINT,
    LOG,
    LOG_HOURS,
    REMOVED_HOURS,
    CheckpointFiles,
    Removal,
    newest_checkpoint,
    read_actions,
    read_removals,
)
from tailrace.lake.storage.log_store import LogStore

Files = TypeVar("Files")

IDENTITY: Final = "tailrace.identity"
FORMAT_KEY: Final = "tailrace.format"
"""Entries of a table's configuration: whose data it has, and the format of its rows"""
COMMIT_DETAILS: Final = "tailrace"
"""The part of a commit's information that is Tailrace's own"""
SHARDS: Final = "shards"
READER_VERSION: Final = 1
"""Tables that need a newer reader of Delta have rows that are not simply those of their files"""
_STATISTICS: Final = "delta.dataSkippingStatsColumns"
"""Without it `deltalake` takes the values of other columns for null, and finds no row by them"""
_CONFIGURATION: Final = {
    "delta.checkpointInterval": "100",
    "delta.enableExpiredLogCleanup": "true",
    "delta.logRetentionDuration": f"interval {LOG_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {REMOVED_HOURS} hours",
}
_COMMIT: Final = re.compile(LOG + r"/(\d{20})\.json")
_NUMBERED: Final = re.compile(LOG + r"/\d{20}\.")
_LOADS: Final = 5
_AT_ONCE: Final = 16
"""Commits to read at the same time, if there are many: an object store takes its time for each"""


def commit_name(version: int) -> str:
    """The name of the file of a commit."""
    return f"{LOG}/{version:020d}.json"


def is_table(store: LogStore) -> bool:
    """Whether there is a log; the list of its files may be long."""
    if store.head(commit_name(0)) is not None or store.head(LAST_CHECKPOINT) is not None:
        return True
    return any(is_numbered(file.name) for file in store.list(LOG))


def is_numbered(name: str) -> bool:
    """Whether a file is one of a log: a commit, or a checkpoint."""
    return _NUMBERED.match(name) is not None


def delta_table(store: LogStore) -> DeltaTable:
    """The table as `deltalake` sees it."""
    options = store.delta_options
    return DeltaTable(store.place, storage_options=None if options is None else dict(options))


def create_table(
    store: LogStore,
    schema: pa.Schema,
    *,
    name: str,
    configuration: Mapping[str, str],
    statistics: Sequence[str],
    transactions: Iterable[tuple[str, int]],
) -> None:
    """Create an empty table; `DeltaError` or `OSError` if that fails, or there is one.

    ``statistics`` are the columns whose statistics the log will have.
    """
    needed = store.delta_options
    store.prepare()
    DeltaTable.create(
        store.place,
        schema,
        name=name,
        configuration={**_CONFIGURATION, _STATISTICS: ",".join(statistics), **configuration},
        storage_options=None if needed is None else dict(needed),
        commit_properties=CommitProperties(
            app_transactions=[Transaction(application, version) for application, version in transactions]
        ),
        raise_if_key_not_exists=False,
    )


def damaged_commit(path: str) -> HistoryError:
    """The error of a commit that is not as it was written."""
    return HistoryError(f"the file {path} of the history is damaged; restore it, or begin a new history")


def commit_actions(path: str, content: bytes) -> list[dict[str, Any]]:
    """The actions of a commit: lines of JSON documents, at least one. Raise `HistoryError` for others.

    A commit without content would pass for one without files, and its events would be missing.
    """
    try:
        actions = [json.loads(line) for line in content.splitlines()]
    except ValueError:
        actions = []
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise damaged_commit(path)
    return actions


def log_versions(names: Iterable[str]) -> list[int]:
    """The numbers of the commits among the files of a log, in order."""
    return sorted(int(found[1]) for name in names if (found := _COMMIT.fullmatch(name)))


def in_short(error: Exception) -> str:
    """The first line of an error; those of `deltalake` have a stack trace after it."""
    return str(error).strip().partition("\n")[0]


class CommittedChanges:
    """What some commits change together."""

    def __init__(self) -> None:
        self.added: dict[str, dict[str, Any]] = {}
        self.removals: dict[Any, Removal] = {}
        """By the file and its deletion vector; a file may be among those that were added, too"""
        self.transactions: dict[str, int] = {}
        self.shards: Mapping[str, Any] | None = None
        self.table: dict[str, dict[str, Any]] = {}
        """The actions about the table itself: `metaData` and `protocol`"""

    @property
    def removed(self) -> set[str]:
        """The paths of the files that were removed."""
        return {removal.path for removal in self.removals.values()}

    def add(self, actions: Iterable[dict[str, Any]]) -> None:
        for action in actions:
            if (added := action.get("add")) is not None:
                self.added[added["path"]] = added
            elif (removed := action.get("remove")) is not None:
                removal = Removal.of(removed)
                self.added.pop(removal.path, None)
                self.removals[removal.key] = removal
            elif (transaction := action.get("txn")) is not None:
                self.transactions[transaction["appId"]] = int(transaction["version"])
            elif (information := action.get("commitInfo")) is not None:
                self.shards = _shards_of(information)
            else:
                self.table.update((name, action[name]) for name in ("metaData", "protocol") if name in action)


class TableLog(ABC, Generic[Files]):
    """The state of a table at one version, which `refresh` moves to the newest."""

    noun: str
    """What messages call the table"""
    files: Files

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._path = store.place
        self.version = -1
        self.transactions: dict[str, int] = {}
        self.shards: Mapping[str, Any] = {}
        """The shards of the source at the newest commit, if they may change"""
        self.table: dict[str, dict[str, Any]] = {}
        """The actions about the table itself: `metaData` and `protocol`"""
        self._checkpoint: str | None = None
        self._checkpoint_due = 0.0
        self._load()

    # -- what differs by the kind of table -----------------------------------------------------------------

    @abstractmethod
    def _checked(self, configuration: Mapping[str, str]) -> None:
        """Read the table's configuration; `HistoryError` if this is another kind of table."""

    @abstractmethod
    def _files_of(self, checkpoint: Sequence[str]) -> Files:
        """The data files that the files of a checkpoint name."""

    @abstractmethod
    def _changed(
        self, files: Files, changes: CommittedChanges, table: Mapping[str, Mapping[str, Any]]
    ) -> Files:
        """The data files after some changes; `HistoryError` if they are not those that Tailrace wrote."""

    # -- the first state -----------------------------------------------------------------------------------

    def _load(self) -> None:
        self._checkpoint = self._checkpoint_mark()
        try:
            for load in count(1):
                try:
                    return self._load_newest()
                except FileNotFoundError:  # another process clears the log away
                    if load == _LOADS:
                        raise
        except (pa.ArrowException, DeltaError, OSError, KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{self.noun} in {self._path} cannot be read: {in_short(error)}") from None

    def _load_newest(self) -> None:
        names = [file.name for file in self._store.list(LOG)]
        checkpoint = newest_checkpoint(names)
        numbers = self._versions(names, -1 if checkpoint is None else checkpoint.version)
        if not numbers and checkpoint is None:
            raise HistoryError(f"there is no {self.noun.removeprefix('the ')} in {self._path}")
        changes = CommittedChanges()
        if checkpoint is not None:
            changes.add(read_actions(self._store, checkpoint.names))
        for actions in self._commits(numbers):
            changes.add(actions)
        self._checked(changes.table.get("metaData", {}).get("configuration") or {})
        self._apply(changes, self._files_of(() if checkpoint is None else checkpoint.names), {})
        self.version = numbers[-1] if numbers else checkpoint.version if checkpoint else -1
        if changes.shards is None:
            self.shards = self._shards_at(self.version)

    def _versions(self, names: Iterable[str], covered: int) -> range:
        """The numbers of the commits after the one that a checkpoint covers."""
        found = [number for number in log_versions(names) if number > covered]
        whole = range(covered + 1, found[-1] + 1 if found else covered + 1)
        for missing in sorted(set(whole).difference(found)):
            # A list that is made while commits are may have the second of two and not the first.
            if self._store.head(commit_name(missing)) is None:
                raise FileNotFoundError(f"{self._store.path_of(commit_name(missing))} is missing")
        return whole

    def _commits(self, numbers: Iterable[int]) -> Iterator[list[dict[str, Any]]]:
        """The actions of commits, in order."""
        names = [commit_name(number) for number in numbers]
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            read = threads.map if len(names) > _AT_ONCE else map
            for name, content in zip(names, read(self._store.read, names), strict=True):
                yield commit_actions(self._store.path_of(name), content)

    def _shards_at(self, version: int) -> Mapping[str, Any]:
        with suppress(FileNotFoundError):
            for action in map(json.loads, self._store.read(commit_name(version)).splitlines()):
                if (information := action.get("commitInfo")) is not None:
                    return _shards_of(information)
        return {}

    # -- the next states -----------------------------------------------------------------------------------

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

    def _apply_next(self) -> bool:
        name = commit_name(self.version + 1)
        try:
            content = self._store.read(name)
        except FileNotFoundError:
            return False
        changes = CommittedChanges()
        try:
            changes.add(commit_actions(self._store.path_of(name), content))
        except (KeyError, TypeError, ValueError):
            raise damaged_commit(self._store.path_of(name)) from None
        self._apply(changes, self.files, self.transactions)
        self.version += 1
        return True

    def _apply(self, changes: CommittedChanges, files: Files, transactions: Mapping[str, int]) -> None:
        """Change everything, or nothing if the files are not those of such a table."""
        table = {**self.table, **changes.table}
        transactions = {**transactions, **changes.transactions}
        self._check_transactions(transactions)
        self.files = self._changed(files, changes, table)
        self.table = table
        self.transactions = transactions
        if changes.shards is not None:
            self.shards = changes.shards

    def _check_transactions(self, transactions: Mapping[str, int]) -> None:
        """Raise `HistoryError` if a position is missing that every such table has."""

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _checkpoint_mark(self) -> str | None:
        found = self._store.head(LAST_CHECKPOINT)
        return None if found is None else found.tag

    def checkpoint_version(self) -> int:
        """The number of the newest commit that a checkpoint covers; -1 if there is none."""
        try:
            return int(json.loads(self._store.read(LAST_CHECKPOINT))["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1  # it is being replaced: the next refresh will find it

    def removals(self) -> list[Removal]:
        """The files that were removed from the table up to this version, as far as its log has them."""
        names = [file.name for file in self._store.list(LOG)]
        checkpoint = newest_checkpoint(names) or CheckpointFiles(-1, ())
        found: dict[Any, Removal] = {}
        with suppress(FileNotFoundError):  # another process clears the log away
            found = {removal.key: removal for removal in read_removals(self._store, checkpoint.names)}
        changes = CommittedChanges()
        for number in log_versions(names):
            if checkpoint.version < number <= self.version:
                with suppress(FileNotFoundError):
                    changes.add(*self._commits([number]))
        return list((found | changes.removals).values())


def _shards_of(information: Mapping[str, Any]) -> Mapping[str, Any]:
    """The shards in the information of a commit; commits of older releases have none."""
    shards: Mapping[str, Any] = information.get(COMMIT_DETAILS, {}).get(SHARDS, {})
    return shards
