"""The sink of the pipeline, for queries without a driver of ours: Spark commits a batch through it.

Tasks hand on what was built, and one process of the driver commits it to the table. Exactly once follows
from the same facts as in `history_job.py`: Spark may repeat a batch, and the table takes an interval once.
"""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tailrace.errors import UsageError
from tailrace.lake.storage.store_options import store_options
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.committing import commit_pieces
from tailrace.pipeline.same_version import SameVersion


@dataclass
class BuiltMessage(WriterCommitMessage):
    """What one task hands on: pickled pieces."""

    built: list[bytes]


class BatchWriter(SameVersion, DataSourceStreamWriter):
    def __init__(self, history: str, store_file: str | None) -> None:
        self._history = history
        self._store_file = store_file

    def write(self, iterator: Iterator[Row]) -> BuiltMessage:
        """Hand on the pieces of a task; they were written where the source was read."""
        built = []
        for row in iterator:
            if row.history != self._history:
                raise UsageError(
                    f"the files were written to the history {row.history}, and the sink is that of "
                    f"{self._history}; give both the same option history"
                )
            built.append(bytes(row.built))
        return BuiltMessage(built)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Commit a batch; in a process of the driver, which Spark may use for the next batch, too."""
        built = [
            pickle.loads(piece)
            for message in messages
            if isinstance(message, BuiltMessage)
            for piece in message.built
        ]
        if built:
            options = store_options(self._store_file)
            commit_pieces(_table(self._history, frozenset(options.items())), built)


@lru_cache(maxsize=2)
def _table(history: str, options: frozenset[tuple[str, str]]) -> HistoryTable:
    """Opening a table takes time, and the next batch only needs what is new."""
    return HistoryTable.open(history, dict(options))
