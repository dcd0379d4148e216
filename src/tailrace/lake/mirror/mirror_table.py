"""The table of one collection: its files, its position, and changing it in atomic steps."""

import json
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema
from deltalake.exceptions import DeltaError

from tailrace.errors import HistoryError
from tailrace.lake.columns.column_types import Layout
from tailrace.lake.columns.kinds import DOCUMENT, KEY, TIME, TableKind
from tailrace.lake.files.checkpoints import REMOVED_HOURS, Removal, write_checkpoint
from tailrace.lake.files.table_log import FORMAT_KEY, IDENTITY, create_table, in_short, is_table
from tailrace.lake.log_writer import CHECKPOINT_COMMITS, addition, clear_log, write_commit
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile, read_file
from tailrace.lake.mirror.deletion_vectors import ENABLED, FEATURE, PROTOCOL, DeletionVector
from tailrace.lake.mirror.layout import FORMAT, dead_letters_place
from tailrace.lake.mirror.mirror_log import COLUMNS, COPY, DEAD_LETTERS, KIND, NAMESPACE, MirrorLog
from tailrace.lake.mirror.typed_rows import TableColumns, table_schema
from tailrace.lake.positions import THROUGH, position_transactions, read_position
from tailrace.lake.storage.log_store import LogStore, open_store

_CONFIGURATION: Final = "configuration"
_ABANDONED_SECONDS: Final = 86_400.0
"""No task writes to one file that long"""


class MirrorTable:
    """One collection's table, seen at one version."""

    def __init__(self, store: LogStore) -> None:
        self.store = store
        self.log = MirrorLog(store)

    @classmethod
    def exists(cls, path: str | PathLike[str], options: Mapping[str, str] | None = None) -> bool:
        return is_table(open_store(path, options))

    @classmethod
    def open(cls, path: str | PathLike[str], options: Mapping[str, str] | None = None) -> "MirrorTable":
        """Open a table; raise `HistoryError` if there is none, or it is another kind of table."""
        return cls(open_store(path, options))

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        *,
        identity: str,
        namespace: str,
        through: int,
        columns: TableColumns,
        options: Mapping[str, str] | None = None,
    ) -> "MirrorTable":
        """A new table of a collection of the deployment ``identity``; nothing was copied yet.

        ``through`` is a cluster time that is not after any that a range will be copied as of.
        """
        store = open_store(path, options)
        try:
            create_table(
                store,
                table_schema(columns.layout, columns.kind),
                name=namespace,
                configuration={
                    IDENTITY: identity,
                    FORMAT_KEY: str(FORMAT),
                    NAMESPACE: namespace,
                    COPY: CopyState().to_text(),
                    COLUMNS: columns.layout.to_json(),
                    KIND: columns.kind.value,
                    **({DEAD_LETTERS: "[]"} if columns.is_given else {}),
                },
                statistics=(TIME,),
                transactions=position_transactions(THROUGH, through),
            )
        except (DeltaError, OSError) as error:
            raise HistoryError(f"no table can be created in {store.place}: {in_short(error)}") from None
        return cls(store)

    # -- what it shows -------------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        return self.store.place

    @property
    def version(self) -> int:
        return self.log.version

    @property
    def shards(self) -> Mapping[str, Any]:
        """Tables of collections have no list of shards; the mirror as a whole has it."""
        return {}

    @property
    def files(self) -> tuple[MirrorFile, ...]:
        """Those that a reader of the table sees, in the order of their first keys."""
        return self.log.files

    @property
    def letters(self) -> tuple[MirrorFile, ...]:
        """The files of dead letters. They are part of another table, whose log may be a commit late."""
        actions = json.loads(self._configuration.get(DEAD_LETTERS, "[]"))
        return tuple(map(MirrorFile.from_action, actions))

    @property
    def all_files(self) -> tuple[MirrorFile, ...]:
        return *self.files, *self.letters

    @property
    def live(self) -> tuple[MirrorFile, ...]:
        """All files with the rows of documents that exist; of each part in the order of keys, disjoint."""
        return tuple(file for file in self.all_files if not file.is_past)

    @property
    def past(self) -> tuple[MirrorFile, ...]:
        """All files with rows that changes have replaced."""
        return tuple(file for file in self.all_files if file.is_past)

    @property
    def kind(self) -> TableKind:
        return TableKind(self._configuration.get(KIND, TableKind.CURRENT))

    @property
    def columns(self) -> TableColumns:
        return TableColumns(self.layout, self.kind, is_given=DEAD_LETTERS in self._configuration)

    @property
    def places(self) -> list[str]:
        """Where the files of each part are: `TypedRows` has the parts."""
        is_given = DEAD_LETTERS in self._configuration
        return [self.place, dead_letters_place(self.place)] if is_given else [self.place]

    @property
    def stores(self) -> list[LogStore]:
        """The stores of `places`."""
        return [self.store, *(open_store(place, self.store.delta_options) for place in self.places[1:])]

    @property
    def rows(self) -> int:
        return sum(file.alive for file in self.files)

    @property
    def namespace(self) -> str:
        return self._configuration[NAMESPACE]

    @property
    def identity(self) -> str:
        """The deployment of the collection."""
        return self._configuration[IDENTITY]

    @property
    def through(self) -> int:
        """The cluster time up to which changes were applied."""
        return read_position(THROUGH, self.log.transactions) or 0

    @property
    def copy_state(self) -> CopyState:
        return CopyState.from_text(self._configuration[COPY])

    @property
    def layout(self) -> Layout:
        """The columns of the documents' fields."""
        return Layout.from_json(self._configuration[COLUMNS])

    @property
    def schema(self) -> pa.Schema:
        return table_schema(self.layout, self.kind)

    @property
    def has_vectors(self) -> bool:
        """Whether rows may be marked as dead: then readers have to know the deletion vectors of Delta."""
        return FEATURE in (self.log.table["protocol"].get("readerFeatures") or ())

    @property
    def _configuration(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.log.table["metaData"][_CONFIGURATION]
        return found

    def refresh(self) -> bool:
        return self.log.refresh()

    def read(self) -> pa.Table:
        """All rows; those of documents that exist come first, in the order of keys."""
        past = [file for file in self.files if file.is_past]
        return pa.concat_tables([self._live_rows(), self._read(past)])

    def documents(self) -> list[bytes]:
        """The documents that exist and fit, in the order of `_id`."""
        found: list[bytes] = self._live_rows().column(DOCUMENT).to_pylist()
        return found

    def _live_rows(self) -> pa.Table:
        live = [file for file in self.files if not file.is_past]
        rows = self._read(live)
        has_runs = any(file.is_run for file in live)
        return rows.take(pc.sort_indices(rows.column(KEY))) if has_runs else rows

    def _read(self, files: Sequence[MirrorFile]) -> pa.Table:
        tables = [read_file(self.store, file, self.schema) for file in files]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    # -- changes -------------------------------------------------------------------------------------------

    def commit(
        self,
        added: Sequence[MirrorFile] = (),
        removed: Sequence[MirrorFile] = (),
        *,
        copy_state: CopyState | None = None,
        layout: Layout | None = None,
        is_given: bool = False,
        through: int | None = None,
    ) -> None:
        """Replace files, together with the table's position, its columns and the state of its copy.

        ``is_given`` if the layout is one that the user has given. Raises `HistoryError` if another process
        has changed the table meanwhile.
        """
        configuration: dict[str, str] = {}
        described: dict[str, str] = {}
        if is_given or any(file.is_letters for file in (*added, *removed)):
            configuration[DEAD_LETTERS] = self._letters_after(added, removed)
        if copy_state is not None:
            configuration[COPY] = copy_state.to_text()
        if layout is not None:
            configuration[COLUMNS] = layout.to_json()
            described["schemaString"] = Schema.from_arrow(table_schema(layout, self.kind)).to_json()
        metadata = None
        if configuration:
            table = self.log.table["metaData"]
            entries = {**table[_CONFIGURATION], **configuration}
            metadata = {**table, **described, _CONFIGURATION: entries}
        is_first = write_commit(
            self,
            "MERGE" if removed else "WRITE",
            added=[file for file in added if not file.is_letters],
            removed=[file for file in removed if not file.is_letters],
            transactions=[] if through is None else position_transactions(THROUGH, through),
            metadata=metadata,
        )
        self._check_first(is_first=is_first)
        self._tidy_log()

    def enable_vectors(self) -> None:
        """Let rows be marked dead from now on. Readers that do not know deletion vectors refuse the table."""
        table = self.log.table["metaData"]
        metadata = {**table, _CONFIGURATION: {**table[_CONFIGURATION], ENABLED: "true"}}
        self._check_first(
            is_first=write_commit(self, "UPGRADE PROTOCOL", metadata=metadata, protocol=PROTOCOL)
        )

    def _check_first(self, *, is_first: bool) -> None:
        if not is_first:
            raise HistoryError(f"another process writes to the table in {self.place}; stop one of them")

    def _letters_after(self, added: Sequence[MirrorFile], removed: Sequence[MirrorFile]) -> str:
        new = [file for file in added if file.is_letters]
        if new:
            # The files' names have to be there when the commit is.
            open_store(dead_letters_place(self.place), self.store.delta_options).settle()
        gone = {file.path for file in removed}
        files = [*(file for file in self.letters if file.path not in gone), *new]
        return json.dumps([addition(file, changes_data=True) for file in files])

    def _tidy_log(self) -> None:
        if self.version - self.log.checkpoint_version() < CHECKPOINT_COMMITS:
            return
        log = self.log
        limit = (time.time() - REMOVED_HOURS * 3600) * 1000
        actions: list[dict[str, Any]] = [{name: log.table[name]} for name in ("protocol", "metaData")]
        actions += ({"txn": {"appId": name, "version": number}} for name, number in log.transactions.items())
        actions += ({"add": addition(file, changes_data=False)} for file in log.files)
        removals = {id(each): each for each in self._removals().values() if each.moment > limit}
        write_checkpoint(self.store, log.version, actions=actions, removals=list(removals.values()), files=())
        clear_log(self.store)

    def _removals(self) -> dict[str, Removal]:
        """The files that are not part of the table any more, and which removal was the last of each."""
        present = self._present()
        found: dict[str, Removal] = {}
        for removal in self.log.removals():
            vector = DeletionVector.of(removal.vector)
            names = {removal.path} if vector is None or vector.file is None else {removal.path, vector.file}
            for name in names - present:
                if name not in found or found[name].moment < removal.moment:
                    found[name] = removal
        return found

    def _present(self) -> set[str]:
        """The names of the files of the table, with those of its deletion vectors."""
        vectors = {file.vector.file for file in self.files if file.vector is not None}
        return {file.path for file in self.files} | {name for name in vectors if name is not None}

    def vacuum(self, grace_seconds: float) -> int:
        """Delete files that were removed longer ago than that; return how many."""
        now = time.time()
        present, removals = self._present(), self._removals()
        deleted = 0
        for file in self.store.list():
            if file.name in present:
                continue
            removal = removals.get(file.name)
            if removal is not None:
                is_garbage = now - removal.moment / 1000 > grace_seconds
            else:
                is_garbage = now - file.modified > _ABANDONED_SECONDS
            if is_garbage:
                self.store.delete(file.name)
                deleted += 1
        return deleted
