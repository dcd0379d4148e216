"""The page of `tailrace pipeline`: its progress, as the serverStatus of a server shows that of its own."""

import argparse
import logging
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from tailrace.cli.serving.page import http_of, in_one_line
from tailrace.log_lines import fields
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri
from tailrace.web.connection_strings import without_user
from tailrace.web.subject import Figures, Subject

if TYPE_CHECKING:
    from tailrace.pipeline.history.progress import Progress

_LOG: Final = logging.getLogger("tailrace.pipeline")
_RATE_SECONDS: Final = 60.0


class PipelineReport(logging.Handler):
    """What a pipeline does now. Its failures are those that it logs before it tries again."""

    def __init__(self, progress: "Progress") -> None:
        super().__init__(logging.WARNING)
        self.state = "starting"
        self._progress = progress
        self._seen = deque([(time.monotonic(), 0)])
        self._failures = 0
        self._failure = ""
        self._retry_at = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        attributes: dict[str, Any] = getattr(record, "attributes", None) or {}
        if "pauseSeconds" in attributes:
            self._failures += 1
            self._failure = str(attributes.get("reason", ""))
            self._retry_at = time.monotonic() + attributes["pauseSeconds"]

    def figures(self) -> Figures:
        """The section `pipeline` of serverStatus, for this process."""
        pause = max(self._retry_at - time.monotonic(), 0.0)
        figures = self._progress.figures()
        return {
            "state": "waiting" if pause else self.state,
            "starts": 1,
            "failures": self._failures,
            **({"lastFailure": self._failure} if self._failure else {}),
            "retrySeconds": round(pause, 1),
            **figures,
            "rowsPerSecond": self._rate(figures["rows"]),
        }

    def _rate(self, rows: int) -> float:
        """Rows a second of the last minute, as often as somebody asks in it."""
        now = time.monotonic()
        self._seen.append((now, rows))
        while len(self._seen) > 2 and self._seen[1][0] <= now - _RATE_SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return round((rows - before) / max(now - then, 0.001), 1)


class PipelinePage:
    """The page, from the binding of its address, before anything is created, to the end of the pipeline."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Raises `UsageError` if the page cannot have its address."""
        self._arguments = arguments
        self._http = http_of(arguments, is_guarded=False)
        self._report: PipelineReport | None = None

    def start(self, progress: "Progress") -> PipelineReport:
        """Serve the page, unless it is off."""
        arguments = self._arguments
        report = self._report = PipelineReport(progress)
        _LOG.addHandler(report)
        source = ConnectionString(arguments.source[0]) if _has_deployment(arguments) else None
        if self._http is not None:
            self._http.start(
                Subject(
                    command="pipeline",
                    source=None if source is None else str(source),
                    clients_uri="" if source is None else without_user(source.shown),
                    has_users=source is not None and _logs_in(source),
                    history=arguments.history,
                    keep_seconds=arguments.keep_age,
                    keep_bytes=arguments.keep_size,
                    pipeline=report.figures,
                ),
                lambda error: _LOG.error("The page failed", extra=fields(error=in_one_line(error))),
            )
            _LOG.info("Serving the page", extra=fields(address=self._http.address))
        return report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._report is not None:
            _LOG.removeHandler(self._report)
        if self._http is not None:
            self._http.stop()


def _logs_in(source: ConnectionString) -> bool:
    """Whether the pipeline has rights that a visitor of the page may not have."""
    return source.user is not None or "authmechanism=" in source.lower()


def _has_deployment(arguments: argparse.Namespace) -> bool:
    return bool(arguments.source) and is_uri(arguments.source[0])
