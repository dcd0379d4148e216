"""Check a history: every file of its log is there, whole, and in order."""

from dataclasses import dataclass, field

from tailrace.errors import HistoryError
from tailrace.events.cluster_time import in_words
from tailrace.events.entry_mark import EntryMark
from tailrace.lake.checksums import read_verified
from tailrace.lake.data_file import AddedFile
from tailrace.lake.files.reading import BATCH_ROWS
from tailrace.lake.storage.log_store import LogStore
from tailrace.lake.table import HistoryTable


@dataclass
class HistoryCheck:
    """What was found in one history; nothing is changed in it."""

    place: str
    identity: str = ""
    version: int = -1
    files: int = 0
    events: int = 0
    begins: int = 0
    through: int = 0
    faults: list[str] = field(default_factory=list)
    _table: HistoryTable | None = None

    def open(self) -> bool:
        """Read the log; False if that is not possible."""
        try:
            table = self._table = HistoryTable.open(self.place)
        except HistoryError as error:
            self.faults.append(str(error))
            return False
        self.identity, self.version = table.identity, table.version
        self.begins, self.through = table.begins, table.through
        return True

    def newest_entry(self, shard: str) -> EntryMark | None:
        """The newest entry of a shard that the history was built from."""
        return None if self._table is None else self._table.newest_entry(shard)

    def run(self) -> None:
        """Read every file, in order."""
        assert self._table is not None
        token = ""
        for file in self._table.files:
            self.files += 1
            path = self._table.store.path_of(file.path)
            try:
                token = self._check_file(self._table.store, file, token)
            except FileNotFoundError:
                self.faults.append(f"the file {path} is in the log of the history, but not there")
            except HistoryError as error:
                self.faults.append(str(error))
        if self._table.files and self._table.files[-1].last_time > self.through:
            self.faults.append(f"the history has events after {in_words(self.through)}, where it ends")

    def _check_file(self, store: LogStore, file: AddedFile, token: str) -> str:
        """Check one file, after the last token of the file before it; return its own last token."""
        path = store.path_of(file.path)
        found = store.head(file.path)
        if found is None:
            raise FileNotFoundError(path)
        if found.size != file.size:
            self.faults.append(
                f"the file {path} has {found.size} bytes, and {file.size} in the log of the history"
            )
        rows = 0
        first = ""
        for batch in read_verified(store, file.path, BATCH_ROWS, size=found.size, columns=["token"]):
            for next_token in batch.column(0).to_pylist():
                if next_token <= token:
                    self.faults.append(f"the file {path} has the token {next_token} after {token}")
                    return str(next_token)
                token = next_token
                first = first or next_token
            rows += batch.num_rows
        self.events += rows
        if rows != file.rows:
            self.faults.append(f"the file {path} has {rows} rows, and {file.rows} in the log of the history")
        if (first, token) != (file.first_token, file.last_token):
            self.faults.append(f"the file {path} begins or ends with another token than in the log")
        return token
