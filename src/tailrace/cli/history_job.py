"""Run `tailrace pipeline`: open the source, start Spark, handle signals, write the log."""

import argparse
import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tailrace.cli.json_arguments import named_argument, paths_by_name, release_argument, shard_and_path
from tailrace.cli.logs.output import log_output
from tailrace.cli.pipeline import chosen_namespaces
from tailrace.cli.serving.pipeline_page import PipelinePage
from tailrace.cli.sources.connection import via_of
from tailrace.cli.spark_needs import require_spark
from tailrace.errors import (
    PipelineError,
    SourceUnavailableError,
    StoreUnavailableError,
    UsageError,
)
from tailrace.log_lines import fields, logging_to
from tailrace.places import archive_place
from tailrace.sources.deployments.connection_string import is_uri
from tailrace.traces import wanted_traces

if TYPE_CHECKING:  # imported when needed: Spark's packages may not be installed
    from tailrace.pipeline.history.settings import PipelineSettings
    from tailrace.sources.source import OplogSource

_DEFAULT_INTERVAL: Final = 5.0
_SECONDS_TO_END: Final = 5.0
"""After the input has closed; nothing is lost by ending in the middle of a batch."""
_LOG: Final = logging.getLogger("tailrace.pipeline")


def run_history_job(arguments: argparse.Namespace) -> int:
    """Build the history until it is complete or a signal arrives; return the exit code."""
    _check(arguments)
    require_spark(arguments.master)
    try:
        with (
            log_output(arguments.log_format, arguments.log_level) as handler,
            logging_to(handler, arguments.log_level),
            signals_set(with_input=arguments.end_with_input) as ending,
            PipelinePage(arguments) as page,
            _source(arguments) as source,
        ):
            _run(arguments, source, page, ending)
    except (SourceUnavailableError, StoreUnavailableError) as error:
        # Not a wrong use of the command, so not its exit code: a supervisor retries.
        raise PipelineError(str(error)) from None
    return 0


def _run(
    arguments: argparse.Namespace, source: "OplogSource", page: PipelinePage, ending: threading.Event
) -> None:
    from tailrace.spark.command_sessions import stop_session
    from tailrace.spark.history_job import HistoryJob

    job = HistoryJob(source, _settings(arguments))
    try:
        job.traces = wanted_traces()
    except UsageError as error:
        _LOG.warning("Running without traces", extra=fields(reason=str(error)))
    report = page.start(job.progress)
    through = job.progress.figures()["through"]
    _LOG.info("Starting Spark", extra=fields(history=arguments.history, through=through))
    spark = started_session(arguments, ending)
    if spark is None:
        return
    try:
        report.state = "running"
        job.run(spark, ending)
    finally:
        stop_session(spark)
        if job.traces is not None:
            job.traces.close()


def started_session(arguments: argparse.Namespace, ending: threading.Event) -> Any | None:
    """Start Spark; None if a signal to end arrived meanwhile, which may have ended Java, too."""
    from tailrace.spark.command_sessions import start_session

    try:
        spark = start_session(arguments.master, dict(map(spark_setting, arguments.spark_conf)))
    except (PipelineError, OSError):
        if ending.is_set():
            return None
        raise
    handle_signals(ending)  # Spark has replaced the handlers
    return spark


def _check(arguments: argparse.Namespace) -> None:
    for text in arguments.spark_conf:
        spark_setting(text)
    if bool(arguments.source) == bool(arguments.shard):
        raise UsageError("give the source: either --source URI or PATH, or --shard NAME=PATH for every shard")
    uris = [text for text in arguments.source if is_uri(text)]
    if uris and len(arguments.source) > 1:
        raise UsageError("--source takes one connection string, or paths, but not both")
    if not uris and arguments.via is not None:
        raise UsageError("--via is for a deployment; archived oplogs are read as they are")
    if uris and arguments.pre_images:
        raise UsageError("--pre-images belongs to archived oplogs; a deployment has its own")
    for name in ("max_entries", "max_bytes"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} has to be at least 1")


def _is_live(arguments: argparse.Namespace) -> bool:
    return bool(arguments.source) and is_uri(arguments.source[0])


def _settings(arguments: argparse.Namespace) -> "PipelineSettings":
    from tailrace.pipeline.history.settings import PipelineSettings

    default = _DEFAULT_INTERVAL if _is_live(arguments) else None
    return PipelineSettings(
        history=arguments.history,
        interval=getattr(arguments, "trigger", default),
        max_entries=arguments.max_entries,
        max_bytes=arguments.max_bytes,
        keep_seconds=arguments.keep_age,
        keep_bytes=arguments.keep_size,
        release=release_argument(arguments.server_version),
        kept=chosen_namespaces(arguments),
        backfill=arguments.backfill,
    )


def _source(arguments: argparse.Namespace) -> "OplogSource":
    if _is_live(arguments):
        from tailrace.sources.recorded.choice import open_deployment

        return open_deployment(arguments.source[0], via_of(arguments))
    from tailrace.sources.archives.files import FilesSource

    if arguments.source:
        shards = {"": [archive_place(path, "an archived oplog") for path in arguments.source]}
    else:
        shards = paths_by_name("--shard", arguments.shard, "NAME=PATH", archive_place)
    images: dict[str | None, list[str]] = {}
    for text in arguments.pre_images:
        shard, path = shard_and_path(text, shards, archive_place)
        images.setdefault(shard, []).append(path)
    return FilesSource(shards, images)


def spark_setting(text: str) -> tuple[str, str]:
    """An argument of --spark-conf."""
    return named_argument("--spark-conf", text, "NAME=VALUE")


@contextmanager
def signals_set(*, with_input: bool = False) -> Iterator[threading.Event]:
    """Yield an event that a signal sets, or the end of standard input."""
    ending = threading.Event()
    handle_signals(ending)
    if with_input:
        threading.Thread(target=_watch_input, args=(ending,), name="tailrace-input", daemon=True).start()
    try:
        yield ending
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)


def handle_signals(ending: threading.Event) -> None:
    """Let signals set an event."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())


def _watch_input(ending: threading.Event) -> None:
    """End soon after the pipe closes: the process that started this one has ended."""
    while os.read(0, 1024):
        pass
    ending.set()
    time.sleep(_SECONDS_TO_END)
    os._exit(1)
