"""The rows of any Delta table, as a dataset of Arrow."""

from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tailrace.errors import UsageError
from tailrace.lake.storage.log_store import open_store


def delta_rows(place: str) -> Any:
    """The newest version of a table in a folder or in an object store; `UsageError` if there is none."""
    options = open_store(place).delta_options
    try:
        table = DeltaTable(place, storage_options=None if options is None else dict(options))
        return table.to_pyarrow_dataset()
    except (DeltaError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise UsageError(f"the Delta table in {place} cannot be read: {reason}") from None
