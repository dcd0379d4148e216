"""Tidy a history while a pipeline writes it: checkpoints of its log, merged files, retention."""

import logging
import threading
import time
from collections.abc import Mapping
from typing import Final

from tailrace.errors import TailraceError
from tailrace.lake.compaction import Merge, compact, merge_one_by_one
from tailrace.lake.log_writer import tidy_log
from tailrace.lake.retention import retain
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.log_lines import fields
from tailrace.pipeline.history.settings import PipelineSettings

_LOG: Final = logging.getLogger("tailrace.pipeline")
_PAUSE_SECONDS: Final = 60.0
_VACUUM_SECONDS: Final = 600.0


class Upkeep:
    """A thread that tidies the table once a minute. Errors are logged, and the next round tries again."""

    def __init__(
        self,
        settings: PipelineSettings,
        merge: Merge = merge_one_by_one,
        most_cold: int = 1,
        *,
        options: Mapping[str, str] | None = None,
        first_pause: float = _PAUSE_SECONDS,
    ) -> None:
        """``merge`` merges files, at most ``most_cold`` groups of those with old rows at a time.

        ``options`` are those of the table's object store, by default what this process has.
        """
        self._settings = settings
        self._options = options
        self._pause = first_pause
        self._merge = merge
        self._most_cold = most_cold
        self._table: HistoryTable | None = None
        self._vacuumed = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailrace-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for the work in progress."""
        self._ending.set()
        self._thread.join()

    def finish(self) -> None:
        """Stop, and tidy once more: a job that has done everything may have been shorter than a pause."""
        self.stop()
        self._try_to_tidy()

    def _run(self) -> None:
        while not self._ending.wait(self._pause):
            self._pause = _PAUSE_SECONDS
            self._try_to_tidy()

    def _try_to_tidy(self) -> None:
        try:
            self._table = self._table or HistoryTable.open(self._settings.history, self._options)
            self._tidy(self._table)
        except (TailraceError, OSError) as error:
            _LOG.warning("The history could not be tidied", extra=fields(reason=str(error)))

    def _tidy(self, table: HistoryTable) -> None:
        settings = self._settings
        table.refresh()
        tidy_log(table)
        removed = retain(table, max_age_seconds=settings.keep_seconds, max_bytes=settings.keep_bytes)
        merged = compact(table, self._merge, most_cold=self._most_cold)
        deleted = 0
        if time.monotonic() - self._vacuumed > _VACUUM_SECONDS:
            self._vacuumed = time.monotonic()
            deleted = vacuum(table)
        if merged or removed or deleted:
            figures = fields(filesMerged=merged, filesGivenUp=removed, filesDeleted=deleted)
            _LOG.info("Tidied the history", extra=figures)
