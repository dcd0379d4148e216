"""The Delta log of a collection's table: its files in the order of their keys."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tailrace.errors import HistoryError
from tailrace.lake.files.checkpoints import read_additions
from tailrace.lake.files.table_log import FORMAT_KEY, IDENTITY, READER_VERSION, CommittedChanges, TableLog
from tailrace.lake.mirror.data_files import MirrorFile
from tailrace.lake.mirror.deletion_vectors import FEATURE
from tailrace.lake.mirror.layout import FORMAT

NAMESPACE: Final = "tailrace.namespace"
COPY: Final = "tailrace.copy"
COLUMNS: Final = "tailrace.columns"
KIND: Final = "tailrace.kind"
"""Entries of a table's configuration: the collection that it mirrors, how far its copy is, the columns of
its documents' fields, and the kind of the table; one without it has the current state"""
DEAD_LETTERS: Final = "tailrace.deadLetters"
"""The entry of a table with a given schema: the files of its dead letters"""


class MirrorLog(TableLog[tuple[MirrorFile, ...]]):
    """The state of a table at one version."""

    noun = "the table"

    def _checked(self, configuration: Mapping[str, str]) -> None:
        if any(name not in configuration for name in (IDENTITY, NAMESPACE, COPY, COLUMNS)):
            raise HistoryError(f"the table in {self._path} is no mirror of a collection")
        found = configuration.get(FORMAT_KEY)
        if found != str(FORMAT):
            raise HistoryError(
                f"the table in {self._path} has format {found}, and this release of Tailrace has format "
                f"{FORMAT}; remove it to copy the collection again, or install the release that wrote it"
            )

    def _files_of(self, checkpoint: Sequence[str]) -> tuple[MirrorFile, ...]:
        return tuple(map(MirrorFile.from_action, read_additions(self._store, checkpoint)))

    def _changed(
        self,
        files: tuple[MirrorFile, ...],
        changes: CommittedChanges,
        table: Mapping[str, Mapping[str, Any]],
    ) -> tuple[MirrorFile, ...]:
        try:
            _check_protocol(table.get("protocol", {}))
            added = [MirrorFile.from_action(action) for action in changes.added.values()]
        except (KeyError, TypeError, ValueError):
            raise HistoryError(
                f"the table in {self._path} was changed by another program; remove it to copy the collection "
                "again, and change a copy of it instead"
            ) from None
        removed = changes.removed
        left = [file for file in files if file.path not in removed]
        return tuple(sorted([*left, *added], key=lambda file: file.first_key))


def _check_protocol(protocol: Mapping[str, Any]) -> None:
    """Raise `ValueError` if a reader has to know features that Tailrace does not use."""
    needed = protocol.get("readerFeatures")
    if needed != [FEATURE] if needed else protocol.get("minReaderVersion", 0) > READER_VERSION:
        raise ValueError("another program gave the table features")
