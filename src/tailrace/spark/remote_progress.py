"""Follow a pipeline whose batches a server of Spark Connect commits."""

import json

from pyspark.sql.streaming.query import StreamingQuery

from tailrace.errors import StoreUnavailableError
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.offset import from_offset
from tailrace.pipeline.history.progress import Progress


class RemoteProgress:
    """Counts what the table has got since the last look."""

    def __init__(self, query: StreamingQuery, table: HistoryTable, progress: Progress) -> None:
        self._query = query
        self._table = table
        self._progress = progress
        self._rows = table.rows

    def look(self) -> None:
        try:
            self._table.refresh()
        except StoreUnavailableError:
            return  # the next look may be answered
        through, rows = self._table.through, self._table.rows
        if through > self._progress.through:
            # Retention may have removed rows since.
            added = max(rows - self._rows, 0)
            self._progress.committed(added, through=through, promised=max(self._promised(), through))
        self._rows = rows

    def _promised(self) -> int:
        """How far the source was, as the query has reported it last."""
        report = self._query.lastProgress
        if report is None or not report["sources"]:
            return 0
        newest = report["sources"][0]["latestOffset"]
        return from_offset(json.loads(newest) if isinstance(newest, str) else newest) if newest else 0
