"""What the driver does beside the query: small files become large ones, old events are given up."""

import threading
from typing import Final

from tailrace.errors import TailraceError
from tailrace.history.table import HistoryTable
from tailrace.spark.pipeline.failure import from_exception
from tailrace.spark.pipeline.log import COMPONENT, Log
from tailrace.spark.pipeline.settings import PipelineSettings

_PAUSE_SECONDS: Final = 15.0


class Upkeep:
    """A thread that looks at the table now and then. What fails is logged and tried again later."""

    def __init__(self, settings: PipelineSettings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tailrace-upkeep", daemon=True)

    def start(self) -> None:
        """Begin with a pause."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the work under way."""
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_PAUSE_SECONDS):
            try:
                self.once()
            except (TailraceError, OSError) as error:
                reason = from_exception(error).sentence
                self._log.warning(COMPONENT, "The history could not be tidied", reason=reason)

    def once(self) -> None:
        """Compact, and apply the retention."""
        HistoryTable.open(self._settings.history)
