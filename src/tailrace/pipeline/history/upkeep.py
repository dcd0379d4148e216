"""What the driver does beside the query: checkpoints of the log, small files merged, old events given up."""

import threading
import time
from typing import Final

from tailrace.errors import TailraceError
from tailrace.lake.compaction import compact
from tailrace.lake.log_writer import tidy_log
from tailrace.lake.retention import retain
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.pipeline.history.failure import from_exception
from tailrace.pipeline.history.log import COMPONENT, Log
from tailrace.pipeline.history.settings import PipelineSettings

_PAUSE_SECONDS: Final = 60.0
_VACUUM_SECONDS: Final = 600.0


class Upkeep:
    """A thread that looks at the table now and then. What fails is logged and tried again later."""

    def __init__(self, settings: PipelineSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._vacuumed = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailrace-upkeep", daemon=True)

    def start(self) -> None:
        """Begin with a pause."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the work under way."""
        self._ending.set()
        self._thread.join()

    def finish(self) -> None:
        """Look once more, behind a job that has done everything: it may have been too short for a pause."""
        self.stop()
        self._look(HistoryTable.open(self._settings.history))

    def _run(self) -> None:
        table = HistoryTable.open(self._settings.history)
        while not self._ending.wait(_PAUSE_SECONDS):
            self._look(table)

    def _look(self, table: HistoryTable) -> None:
        try:
            self._tidy(table)
        except (TailraceError, OSError) as error:
            reason = from_exception(error).sentence
            self._log.warning(COMPONENT, "The history could not be tidied", reason=reason)

    def _tidy(self, table: HistoryTable) -> None:
        settings = self._settings
        table.refresh()
        tidy_log(table)
        given_up = retain(table, max_age_seconds=settings.keep_seconds, max_bytes=settings.keep_bytes)
        merged = compact(table)
        deleted = 0
        if time.monotonic() - self._vacuumed > _VACUUM_SECONDS:
            self._vacuumed = time.monotonic()
            deleted = vacuum(table)
        if merged or given_up or deleted:
            self._log.info(
                COMPONENT,
                "Tidied the history",
                filesMerged=merged,
                filesGivenUp=given_up,
                filesDeleted=deleted,
            )
