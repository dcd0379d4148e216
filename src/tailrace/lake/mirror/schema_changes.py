"""The table of all schema changes of a mirror, beside the tables of the collections."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake
from deltalake.exceptions import DeltaError

from tailrace.errors import HistoryError
from tailrace.lake.columns.drift import schema_change_rows
from tailrace.lake.columns.evolve import SchemaChange
from tailrace.lake.files.table_log import in_short
from tailrace.lake.storage.log_store import open_store

FOLDER: Final = "_schema_changes"


class SchemaChangeTable:
    """Appends records. A process that is killed before the columns are committed leaves them twice."""

    def __init__(self, root: str) -> None:
        self._store = open_store(f"{root}/{FOLDER}")

    def record(self, namespace: str, changes: Sequence[SchemaChange]) -> None:
        rows = pa.Table.from_batches([schema_change_rows(namespace, changes)])
        options = self._store.delta_options
        try:
            self._store.prepare()
            write_deltalake(
                self._store.place,
                rows,
                mode="append",
                storage_options=None if options is None else dict(options),
            )
        except (DeltaError, OSError) as error:
            raise HistoryError(
                f"the schema changes cannot be written to {self._store.place}: {in_short(error)}"
            ) from None
