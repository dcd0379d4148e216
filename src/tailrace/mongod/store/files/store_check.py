"""Check a data directory that no server uses: its pages, every record, index and oplog entry."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import lmdb

from tailrace.bson import documents
from tailrace.errors import CommandError, UsageError
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_mark import EntryMark
from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.files.page_file import DamagedPage, check_pages
from tailrace.mongod.store.files.stored_catalog import load_catalog
from tailrace.mongod.store.reader import Snapshot
from tailrace.mongod.store.tables import DATA_FILE, Tables
from tailrace.mongod.store.validation import Validation

_MOST_FAULTS: Final = 100


@dataclass
class StoreCheck:
    """What was found in one data directory; nothing is changed in it."""

    path: Path
    wanted: EntryMark | None = None
    """The newest entry that a history was built from"""
    pages: int = 0
    collections: int = 0
    records: int = 0
    entries: int = 0
    newest: int = 0
    truncated_through: int = 0
    identity: str = ""
    found: EntryMark | None = None
    """The entry of the oplog at the time of the wanted one"""
    faults: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Check everything; what is wrong is in `faults` afterwards."""
        file = self.path / DATA_FILE
        try:
            self.pages = check_pages(file)
            tables = Tables(self.path)
        except DamagedPage as error:
            self._fault(f"{file}: {error}")
            return
        except UsageError as error:
            self._fault(str(error))
            return
        try:
            transaction = tables.begin()
            with Snapshot(tables, transaction, Catalog()) as reader:
                catalog = load_catalog(reader, tables, transaction)
                self._check_collections(Snapshot(tables, transaction, catalog), catalog)
                self._check_oplog(reader)
                stored = reader.meta("replicaSet")
                self.identity = "" if stored is None else str(documents.decode(stored)["id"])
        except (lmdb.Error, CommandError) as error:
            self._fault(f"{file}: {error}")
        finally:
            tables.close()

    def _check_collections(self, reader: Snapshot, catalog: Catalog) -> None:
        for collection in catalog.collections():
            self.collections += 1
            validation = Validation(reader, collection)
            for _ in validation.steps():
                pass
            self.records += validation.records
            for error in validation.errors:
                self._fault(f"{collection.ns}: {error}")

    def _check_oplog(self, reader: Snapshot) -> None:
        for time, raw in reader.entries():
            self.entries += 1
            try:
                mark = EntryMark.of(raw)
            except CommandError as error:
                self._fault(f"the oplog entry of {in_words(time)} is not sound: {error.message}")
                continue
            if mark.time != time:
                self._fault(f"the oplog entry of {in_words(time)} has another time: {in_words(mark.time)}")
            if self.wanted is not None and time == self.wanted.time:
                self.found = mark
            self.newest = time
        self.truncated_through = reader.truncated_through()

    def _fault(self, reason: str) -> None:
        if len(self.faults) < _MOST_FAULTS:
            self.faults.append(reason)
