"""The figures of a history: its size, its growth by day, its rates, its collections.

Everything but the collections comes from the table's list of files. A file that reaches over several
intervals counts in each of them by its share of time. The methods read files: they run in a worker thread.
"""

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from tailrace.errors import HistoryError, TailraceError
from tailrace.sources.log_window import LogWindow
from tailrace.web.subject import Figures, Subject

if TYPE_CHECKING:
    from tailrace.lake.table import HistoryTable

_DAY: Final = 86_400
_MOST_DAYS: Final = 60
_BUCKETS: Final = 240
_COUNTED_ROWS: Final = 500_000
"""The newest rows, of which the collections are counted."""
_BATCH_ROWS: Final = 65_536
_COUNT_SECONDS: Final = 60.0
"""Between two counts of collections."""
_MOST_COLLECTIONS: Final = 50


class HistoryBook:
    """Reads one history, which may not exist yet."""

    def __init__(self, subject: Subject) -> None:
        self._place = subject.history
        self._keep = subject.keep_bytes, subject.keep_seconds
        self._lock = threading.Lock()
        self._table: HistoryTable | None = None
        self._collections: list[dict[str, Any]] = []
        self._counted_rows = 0
        self._counted_version = -1
        self._counted_at = 0.0

    def figures(self) -> Figures | None:
        """What the page shows; None without a history."""
        if self._place is None:
            return None
        try:
            with self._lock:
                table = self._newest(self._place)
                return {"place": self._place, "exists": False} if table is None else self._figures(table)
        except (TailraceError, OSError) as error:
            return {"place": self._place, "exists": False, "error": str(error)}

    def _newest(self, place: str) -> "HistoryTable | None":
        if self._table is None:
            try:
                from tailrace.lake.table import HistoryTable
            except ImportError as error:
                raise HistoryError(
                    f"it cannot be read without the package {error.name}; install tailrace[spark]"
                ) from None
            if not HistoryTable.exists(place):
                return None
            self._table = HistoryTable.open(place)
        else:
            self._table.refresh()
        return self._table

    def _figures(self, table: "HistoryTable") -> Figures:
        return {
            "place": table.place,
            "exists": True,
            "events": table.rows,
            "bytes": table.size,
            "files": len(table.files),
            "version": table.version,
            "begins": table.begins >> 32,
            "oldest": (table.files[0].first_time if len(table.files) else table.through) >> 32,
            "through": table.through >> 32,
            "keepSeconds": self._keep[1],
            "keepBytes": self._keep[0],
        }

    def window(self, figures: Figures | None) -> LogWindow | None:
        """Between which times the history of some figures has events."""
        if figures is None or not figures["exists"]:
            return None
        keep_bytes, keep_seconds = self._keep
        return LogWindow(
            figures["oldest"],
            figures["through"],
            figures["bytes"],
            keep_bytes,
            keep_seconds,
            complete_after=figures["begins"],
        )

    def details(self) -> Figures:
        """Growth by day, rates over all of it, and collections; empty without a history."""
        nothing: Figures = {"days": [], "rates": [], "collections": [], "countedRows": 0}
        if self._place is None:
            return nothing
        try:
            with self._lock:
                table = self._newest(self._place)
                if table is None or not len(table.files):
                    return nothing
                self._count_collections(table)
                return {
                    "days": _days(table),
                    "rates": _rates(table),
                    "collections": self._collections,
                    "countedRows": self._counted_rows,
                }
        except (TailraceError, OSError):
            return nothing  # `figures` shows the reason

    def _count_collections(self, table: "HistoryTable") -> None:
        now = time.monotonic()
        if table.version == self._counted_version or now - self._counted_at < _COUNT_SECONDS:
            return
        rows, after = 0, table.begins
        for position in range(len(table.files) - 1, -1, -1):
            file = table.files[position]
            if rows + file.rows > _COUNTED_ROWS and rows:
                after = file.last_time
                break
            rows += file.rows
        self._collections = _collections(table, after)
        self._counted_rows, self._counted_version, self._counted_at = rows, table.version, now


def _collections(table: "HistoryTable", after: int) -> list[dict[str, Any]]:
    """The collections with the most events after a cluster time."""
    import pyarrow as pa

    names = ("db", "coll")
    parts = [
        pa.table({name: batch.column(name).cast(pa.string()) for name in names})
        for batch in table.read(after, columns=names, batch_rows=_BATCH_ROWS)
    ]
    if not parts:
        return []
    counted = pa.concat_tables(parts).group_by(list(names)).aggregate([([], "count_all")]).to_pylist()
    counted.sort(key=lambda row: -row["count_all"])
    return [
        {"ns": ".".join(row[name] for name in names if row[name]) or "(other)", "events": row["count_all"]}
        for row in counted[:_MOST_COLLECTIONS]
    ]


def _days(table: "HistoryTable") -> list[dict[str, Any]]:
    files = table.files
    last = int(files[-1].last_time >> 32) // _DAY
    first = max(int(files[0].first_time >> 32) // _DAY, last - _MOST_DAYS + 1)
    edges = [day * _DAY for day in range(first, last + 2)]
    rows, sizes = (_spread(table, name, edges) for name in ("rows", "size"))
    return [
        {
            "day": datetime.fromtimestamp(edge, UTC).date().isoformat(),
            "events": round(row),
            "bytes": round(size),
        }
        for edge, row, size in zip(edges, rows, sizes, strict=False)
    ]


def _rates(table: "HistoryTable") -> list[list[float]]:
    """Ends of intervals in milliseconds since 1970, and events a second."""
    files = table.files
    first, last = files[0].first_time >> 32, (files[-1].last_time >> 32) + 1
    step = max((last - first) / _BUCKETS, 1.0)
    edges = [first + step * number for number in range(round((last - first) / step) + 1)]
    counts = _spread(table, "rows", edges)
    return [
        [round(edge * 1000), round(count / step, 3)] for edge, count in zip(edges[1:], counts, strict=True)
    ]


def _spread(table: "HistoryTable", name: str, edges: list[float] | list[int]) -> list[float]:
    """Distribute a figure of all files over intervals, by time: how much is between each two edges."""
    import numpy as np

    files = table.files
    amounts = files.column(name).astype(float)
    begins = (files.column("first_time") >> np.uint64(32)).astype(float)
    ends = (files.column("last_time") >> np.uint64(32)).astype(float) + 1.0
    # Files are in order and disjoint, up to a second: what is before an edge grows linearly inside of each.
    before = np.concatenate([[0.0], np.cumsum(amounts)])
    places = np.array(edges, float)
    number = np.minimum(np.searchsorted(ends, places, "right"), len(amounts) - 1)
    share = np.clip((places - begins[number]) / (ends[number] - begins[number]), 0.0, 1.0)
    differences = np.diff(before[number] + share * amounts[number])
    return [float(each) for each in np.maximum(differences, 0.0)]
