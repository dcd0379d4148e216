"""Record snapshots of the source's collections, in a thread beside the streams.

Documents that were there before the history began are known from their snapshot on (`lake/past/base.py`).
What is recorded is stored with the history, so that a restart continues. Collections that begin to need a
snapshot later, because the history has forgotten its oldest changes or keeps more, get theirs within an hour.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from bson import Int64

from tailrace.errors import TailraceError
from tailrace.lake.table import HistoryTable
from tailrace.mongod.front.deployment import FrontedDeployment
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.pipeline.base_recorder import BaseRecorder
from tailrace.sources.deployments.collections import CollectionReader

_COMPONENT: Final = "IMAGES"
_SECONDS_UNTIL_HISTORY: Final = 1.0
_SECONDS_AFTER_FAULT: Final = 10.0
_SECONDS_AFTER_ALL: Final = 3600.0


class SnapshotThread(Thread):
    """Runs until `stop`, or until this process ends."""

    def __init__(
        self, history: str | Path, source: FrontedDeployment, log: Logbook, recorded: Callable[[], None]
    ) -> None:
        """``recorded`` is called in the thread after each range."""
        super().__init__(name="tailrace-snapshot", daemon=True)
        self._history = history
        self._source = source
        self._log = log
        self._recorded = recorded
        self._ending = Event()
        self._state = "waiting for the history"
        self._ranges = 0
        self._documents = 0
        self._fault: str | None = None
        self._wanted: int | None = None
        """The cluster time that the history has to reach first."""

    def stop(self) -> None:
        """Begin no further range; the one that is being read is not waited for."""
        self._ending.set()

    def status(self) -> dict[str, Any]:
        """For serverStatus."""
        return {
            "state": self._state,
            "ranges": self._ranges,
            "documents": Int64(self._documents),
            "fault": self._fault,
        }

    def run(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            try:
                pause = self._record()
            except (TailraceError, OSError) as error:
                pause = _SECONDS_AFTER_FAULT
                if self._ending.is_set():
                    return
                if str(error) != self._fault:
                    self._log.warning(
                        _COMPONENT, "A snapshot cannot be recorded; this is retried", error=str(error)
                    )
                self._fault = str(error)

    def _record(self) -> float:
        """Record what is missing; return after how many seconds to look again."""
        if not HistoryTable.exists(self._history):
            return _SECONDS_UNTIL_HISTORY
        table = HistoryTable.open(self._history)
        table.check_identity(self._source.identity)
        reader = CollectionReader(self._source.client, self._source.uri)
        if self._wanted is None:
            self._wanted = reader.newest_time()
        if table.through < self._wanted:
            # It may still get the creation of collections, which then need no snapshot.
            return _SECONDS_UNTIL_HISTORY
        recorder = BaseRecorder(reader, table)
        self._state = "recording"
        for recorded in recorder.record():
            self._ranges += 1
            self._documents += recorded.documents
            self._fault = None
            self._recorded()
            if recorded.number == recorded.of:
                self._log.info(_COMPONENT, "Recorded a snapshot", ns=recorded.namespace, ranges=recorded.of)
            if self._ending.is_set():
                return 0.0
        self._fault = self._wanted = None
        self._state = "complete"
        return _SECONDS_AFTER_ALL
