"""The Delta log of a history: its files and positions. The data files are columns, not objects (`files/`)."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.errors import CommandError, HistoryError
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.data_file import AddedFile
from tailrace.lake.files.checkpoints import read_files
from tailrace.lake.files.file_list import FileList
from tailrace.lake.files.table_log import FORMAT_KEY, IDENTITY, READER_VERSION, CommittedChanges, TableLog
from tailrace.lake.positions import BEGINS, THROUGH, position_names
from tailrace.lake.schema import FORMAT
from tailrace.lake.storage.log_store import LogStore
from tailrace.namespaces import KeptPeriods

KEPT: Final = "tailrace.kept"
"""Which namespaces the history keeps, and since when; one without this entry keeps all."""
_SERVER_VERSION: Final = "tailrace.serverVersion"
_COMPATIBILITY: Final = "tailrace.featureCompatibilityVersion"


def release_entries(release: StreamRelease) -> dict[str, str]:
    """The entries of the table's configuration about the release of the deployment."""
    return {_SERVER_VERSION: release.version, _COMPATIBILITY: release.series}


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


class DeltaLog(TableLog[FileList]):
    """The state of a history at one version."""

    noun = "the history"

    def __init__(self, store: LogStore) -> None:
        self.identity = ""
        self.release = CURRENT_RELEASE
        self.kept = KeptPeriods()
        super().__init__(store)

    def _checked(self, configuration: Mapping[str, str]) -> None:
        if IDENTITY not in configuration:
            raise self._no_history()
        check_format(self._path, configuration.get(FORMAT_KEY, "1"))
        self.identity = configuration[IDENTITY]
        if (release := configuration.get(_SERVER_VERSION)) is not None:
            self.release = StreamRelease.of_server(release, configuration.get(_COMPATIBILITY))

    def _check_transactions(self, transactions: Mapping[str, int]) -> None:
        names = (*position_names(THROUGH), *position_names(BEGINS))
        if any(name not in transactions for name in names):
            raise self._no_history()

    def _no_history(self) -> HistoryError:
        return HistoryError(f"the table in {self._path} is no history of Tailrace")

    def _files_of(self, checkpoint: Sequence[str]) -> FileList:
        try:
            return FileList.of(read_files(self._store, checkpoint))
        except ValueError:
            raise changed_by_others(self._path) from None

    def _changed(
        self, files: FileList, changes: CommittedChanges, table: Mapping[str, Mapping[str, Any]]
    ) -> FileList:
        if table.get("protocol", {}).get("minReaderVersion", 0) > READER_VERSION:
            raise changed_by_others(self._path)
        try:
            added = [AddedFile.from_action(action) for action in changes.added.values()]
            found = files.changed(changes.removed, added)
        except (KeyError, TypeError, ValueError, CommandError):
            raise changed_by_others(self._path) from None
        if "metaData" in changes.table:
            self.kept = KeptPeriods.from_text(table["metaData"].get("configuration", {}).get(KEPT))
        return found
