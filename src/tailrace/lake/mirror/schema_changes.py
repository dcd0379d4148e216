"""The table of all schema changes of a mirror, beside the tables of the collections."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tailrace.errors import HistoryError
from tailrace.lake.columns.drift import schema_change_rows
from tailrace.lake.columns.evolve import SchemaChange
from tailrace.lake.files.table_log import in_short, is_table
from tailrace.lake.storage.log_store import open_store

FOLDER: Final = "_schema_changes"


class SchemaChangeTable:
    """Appends records. A process that is killed before the columns are committed leaves them twice."""

    def __init__(self, root: str) -> None:
        self._store = open_store(f"{root}/{FOLDER}")

    def record(self, namespace: str, changes: Sequence[SchemaChange]) -> None:
        rows = pa.Table.from_batches([schema_change_rows(namespace, changes)])
        try:
            self._store.prepare()
            write_deltalake(
                self._store.place,
                rows,
                mode="append",
                storage_options=self._options,
            )
        except (DeltaError, OSError) as error:
            raise HistoryError(
                f"the schema changes cannot be written to {self._store.place}: {in_short(error)}"
            ) from None

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The newest records, the last one first."""
        if not is_table(self._store):
            return []
        try:
            rows = DeltaTable(self._store.place, storage_options=self._options).to_pyarrow_table()
        except (DeltaError, OSError) as error:
            raise HistoryError(
                f"the schema changes in {self._store.place} cannot be read: {in_short(error)}"
            ) from None
        ordered = rows.sort_by([("cluster_time", "descending"), ("increment", "descending")])
        found: list[dict[str, Any]] = ordered.slice(0, count).to_pylist()
        return found

    @property
    def _options(self) -> dict[str, str] | None:
        options = self._store.delta_options
        return None if options is None else dict(options)
