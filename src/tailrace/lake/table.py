"""The history table: its files, its positions, and reading it in order.

A table object is one reader's view. It shows a committed version, and moves to the newest by `refresh`. Files
have disjoint ranges of tokens and of cluster times, so reading in order is reading file after file.
"""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

import pyarrow as pa
from deltalake.exceptions import DeltaError

from tailrace.errors import HistoryError
from tailrace.events.entry_mark import EntryMark
from tailrace.events.stream_release import CURRENT_RELEASE, StreamRelease
from tailrace.lake.delta_log import KEPT, DeltaLog, release_entries
from tailrace.lake.files.file_list import FileList
from tailrace.lake.files.reading import BATCH_ROWS, read_rows
from tailrace.lake.files.table_log import FORMAT_KEY, IDENTITY, create_table, in_short, is_table
from tailrace.lake.positions import BEGINS, THROUGH, position_transactions, read_mark, read_position
from tailrace.lake.schema import FORMAT, SCHEMA, STREAM_COLUMNS
from tailrace.lake.storage.log_store import LogStore, open_store
from tailrace.namespaces import EVERYTHING_KEPT, KeptPeriods, NamespaceChoice


class HistoryTable:
    """One history, seen at one version."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        """Where its files are"""
        self.log = DeltaLog(store)
        """The state of the version that is shown"""

    @classmethod
    def exists(cls, path: str | PathLike[str], options: Mapping[str, str] | None = None) -> bool:
        return is_table(open_store(path, options))

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, str] | None = None) -> "HistoryTable":
        """Open a history; raise `HistoryError` if there is none, or the folder contains something else.

        ``path`` is a folder or the URL of an object store, and ``options`` those of the latter, by default
        what the environment of this process has.
        """
        return cls(open_store(path, options))

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        identity: str,
        begins: int,
        release: StreamRelease = CURRENT_RELEASE,
        kept: NamespaceChoice = EVERYTHING_KEPT,
        options: Mapping[str, str] | None = None,
    ) -> "HistoryTable":
        """A new history of the deployment ``identity``, of everything after the cluster time ``begins``.

        ``release`` is that of the deployment. Streams of the history imitate it if a reader names no other.
        ``kept`` are the namespaces whose events it has. ``options`` are those of `open`.
        """
        store = open_store(path, options)
        try:
            create_table(
                store,
                SCHEMA,
                name="tailrace history",
                configuration={
                    IDENTITY: identity,
                    FORMAT_KEY: str(FORMAT),
                    **release_entries(release),
                    **({} if kept.is_free else {KEPT: KeptPeriods(((begins, kept),)).to_text()}),
                },
                statistics=("token", "cluster_time", "wall_time"),
                transactions=position_transactions(THROUGH, begins) + position_transactions(BEGINS, begins),
            )
        except (DeltaError, OSError) as error:
            raise HistoryError(f"no history can be created in {store.place}: {in_short(error)}") from None
        return cls(store)

    @property
    def place(self) -> str:
        """The folder or the URL."""
        return self.store.place

    @property
    def identity(self) -> str:
        """Which deployment's history this is."""
        return self.log.identity

    @property
    def release(self) -> StreamRelease:
        """The release of the deployment when the history was created; it holds what all releases show."""
        return self.log.release

    @property
    def kept(self) -> KeptPeriods:
        """Which namespaces have their events here, and since when."""
        return self.log.kept

    @property
    def begins(self) -> int:
        """The cluster time after which the table is complete."""
        return read_position(BEGINS, self.log.transactions) or 0

    @property
    def through(self) -> int:
        """The cluster time up to which it is complete."""
        return read_position(THROUGH, self.log.transactions) or 0

    def newest_entry(self, shard: str) -> EntryMark | None:
        """The mark of the newest entry of a shard that the history was built from.

        None if there was no entry yet, or the history was written by a release that did not store it.
        """
        return read_mark(shard, self.log.transactions.get)

    @property
    def shards(self) -> Mapping[str, Any]:
        """The shards of the source at the newest commit; empty if they never change."""
        return self.log.shards

    @property
    def removals(self) -> dict[str, int]:
        """When files were removed that may still be there, in milliseconds since 1970."""
        return {removal.path: removal.moment for removal in self.log.removals()}

    @property
    def version(self) -> int:
        """The number of the newest commit that this view shows."""
        return self.log.version

    @property
    def checkpoint(self) -> int:
        """The number of the newest commit that a checkpoint covers; -1 if there is none."""
        return self.log.checkpoint_version()

    @property
    def files(self) -> FileList:
        """The files in order; the list of a version never changes."""
        return self.log.files

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return self.files.size

    @property
    def rows(self) -> int:
        """Rows of all files together."""
        return self.files.rows

    def check_identity(self, identity: str) -> None:
        """Raise `HistoryError` unless this is that deployment's history."""
        if identity != self.identity:
            raise HistoryError(
                f"the history in {self.place} belongs to {self.identity}, not to {identity}; "
                "name another folder, or remove it to start again"
            )

    def refresh(self) -> bool:
        """Show the newest version; return whether that is another one. Takes microseconds if it is not."""
        return self.log.refresh()

    def has_next(self) -> bool:
        """Whether there is a newer commit."""
        return self.log.has_next()

    def read(
        self,
        after: int,
        through: int | None = None,
        *,
        columns: Sequence[str] = STREAM_COLUMNS,
        batch_rows: int = BATCH_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """The rows after ``after`` and up to ``through``, in order; a cluster time is never cut in two.

        Columns with few values have a dictionary. If files were merged or deleted meanwhile, the reader
        continues in those that replaced them. If ``after`` is before `begins`, what is left is read; the
        caller checks that first.
        """
        end = self.through if through is None else min(through, self.through)
        return read_rows(self, after, end, columns=columns, batch_rows=batch_rows)
