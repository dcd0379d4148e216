"""Run a mirror: until its tables are complete, or without end."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from tailrace.events.cluster_time import to_pair
from tailrace.log_lines import fields
from tailrace.pipeline.failure import failure_of
from tailrace.pipeline.mirror.engine import MirrorEngine
from tailrace.pipeline.mirror.progress import MirrorProgress

_LOG: Final = logging.getLogger("tailrace.mirror")
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_MOST_ATTEMPTS: Final = 10
"""In a row without any progress; while the source does not answer there is no limit."""
_POLL_SECONDS: Final = 0.05
_TIMES_AS_LONG: Final = 4
_LONGEST_WAIT: Final = 60.0
_QUIET_SECONDS: Final = 10.0


class MirrorJob:
    """Makes an engine, and another one after a failure that may pass."""

    def __init__(
        self,
        make: Callable[[MirrorProgress], MirrorEngine],
        interval: float | None,
        copying_seconds: float = 0.0,
    ) -> None:
        """``interval`` has the seconds between batches; with None the job ends with complete tables.

        While collections are copied, changes wait for ``copying_seconds``, and up to a minute if merging them
        takes long: a merge writes all files again that have a change, however few there are in each.
        """
        self._make = make
        self._interval = interval
        self._copying_seconds = copying_seconds
        self._waits_until = 0.0
        self._logged = 0.0
        self.progress = MirrorProgress()

    def run(self, ending: threading.Event | None = None) -> MirrorEngine | None:
        """Run until everything is done or ``ending`` is set; return the engine that has come to an end."""
        ending = ending or threading.Event()
        pause, attempts, steps = _FIRST_PAUSE, 0, -1
        while not ending.is_set():
            try:
                return self._run(self._make(self.progress), ending)
            except Exception as error:
                failure = failure_of(error)
                done = self.progress.batches + self.progress.documents
                if done > steps:
                    pause, attempts, steps = _FIRST_PAUSE, 0, done
                attempts += 1
                if not failure.is_retryable or (attempts > _MOST_ATTEMPTS and not failure.is_source_away):
                    raise failure.error() from error
                _LOG.warning("Trying again", extra=fields(reason=failure.sentence, pauseSeconds=pause))
                ending.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        return None

    def _run(self, engine: MirrorEngine, ending: threading.Event) -> MirrorEngine:
        self._waits_until = time.monotonic() + self._copying_seconds
        while not ending.is_set():
            began = time.monotonic()
            has_copied = engine.copy_some()
            has_applied = self._is_due(has_copied) and self._apply(engine)
            self._log_progress()
            if not has_copied and self._interval is None:
                if self._is_over(engine):
                    break
                if not has_applied:
                    ending.wait(_POLL_SECONDS)
            elif not has_copied and self.progress.lag_seconds <= self._interval_seconds:
                ending.wait(max(began + self._interval_seconds - time.monotonic(), _POLL_SECONDS))
        return engine

    def _is_due(self, has_copied: bool) -> bool:
        return not has_copied or time.monotonic() >= self._waits_until

    def _apply(self, engine: MirrorEngine) -> bool:
        began = time.monotonic()
        has_applied = engine.apply_some()
        ended = time.monotonic()
        if self._copying_seconds:
            longer = min(_TIMES_AS_LONG * (ended - began), _LONGEST_WAIT)
            self._waits_until = ended + max(self._copying_seconds, longer)
        return has_applied

    @property
    def _interval_seconds(self) -> float:
        return self._interval or 0.0

    def _is_over(self, engine: MirrorEngine) -> bool:
        """Whether the tables show one moment that is not before the end of the copy."""
        return engine.is_consistent and engine.through >= self.progress.promised

    def _log_progress(self) -> None:
        now = time.monotonic()
        if now - self._logged >= _QUIET_SECONDS:
            self._logged = now
            _LOG.info("Progress", extra=fields(**self.progress.figures()))


def log_end(engine: MirrorEngine) -> None:
    """Log the cluster time at which the tables show the collections."""
    attributes = fields(
        consistentAt=to_pair(engine.through) if engine.is_consistent else None,
        tables=len(engine.tables),
        rows=sum(table.rows for table in engine.tables.values()),
        **engine.progress.figures(),
    )
    _LOG.info("Mirror ended", extra=attributes)
