"""The pipeline that `tailrace serve` runs: whether there is one, its command line, and how it connects."""

import argparse
import os
import secrets
import sys
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from tailrace.cli.commands import parser_of
from tailrace.cli.logs.arguments import JSON
from tailrace.cli.pipeline import duration
from tailrace.cli.settings.sources import without_options
from tailrace.cli.spark_needs import missing_for_spark
from tailrace.errors import UsageError
from tailrace.events.stream_release import Since
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.server.access.process_users import PIPELINE_PRIVILEGES, add_process_user
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.server import Server
from tailrace.mongod.server.streams.pipeline_child import COMPONENT, PipelineChild, Progress, allowed_silence

if TYPE_CHECKING:
    from tailrace.mongod.front.deployment import FrontedDeployment

_COMMAND: Final = "pipeline"
_HISTORY_FOLDER: Final = "history"
_CALM_TRIGGER: Final = "5s"
_PROMPT_TRIGGER: Final = "0s"
"""Without a head, clients wait for the pipeline: a batch begins as soon as there are entries."""
_LOW_PRIORITY: Final = 10
"""Niceness of the pipeline while streams read new events from the head and no client waits for it."""
_PIPELINE_CONNECTS: Final[Since] = ((4, 4, 2),)
"""PyMongo accepts no older servers, and the pipeline calls `hello`."""
_PIPELINE_USER: Final = "__pipeline"
_PASSWORD_BYTES: Final = 32
_KILOBYTE: Final = 1024
_OF_THE_PIPELINE: Final = ("spark_master", "trigger", "keep_age", "keep_size", "spark_conf")
"""Options that need one."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline that builds a server's history."""

    history: str
    """A folder, or the URL of an object store."""
    is_child: bool
    """False: another process builds this history."""
    trigger: str
    niceness: int
    keep_seconds: float | None = None
    """How long it keeps events; None without end."""
    keep_bytes: int | None = None
    """How large the history may become; None without a limit."""
    further: tuple[str, ...] = ()
    """Further arguments that are passed to it."""

    def command(self, source: list[str], log_level: str) -> list[str]:
        """The child's command line; ``source`` are the arguments that name the deployment."""
        keep = [] if self.keep_seconds is None else ["--keep-age", f"{self.keep_seconds}s"]
        if self.keep_bytes is not None:
            keep += ["--keep-size", f"{self.keep_bytes / _KILOBYTE}KB"]
        return [
            *(sys.executable, "-m", "tailrace", _COMMAND, *source, "--history", self.history),
            *("--trigger", self.trigger, "--log-level", log_level, "--log-format", JSON),
            *("--end-with-input", *keep, *self.further),
            *("--http", "off"),  # the page of the server shows it
        ]


def pipeline_of(arguments: argparse.Namespace, log: Logbook, stack: ExitStack) -> Pipeline | None:
    """Return the pipeline that the options ask for; None for a server without a history."""
    prompt = arguments.head == "off"
    asked = [
        f"--{name.replace('_', '-')}"
        for name in _OF_THE_PIPELINE
        if getattr(arguments, name, None) not in (None, [])
    ]
    if asked and (arguments.standalone or arguments.no_spark):
        raise UsageError(f"{asked[0]} is for a server with a pipeline; leave out --no-spark and --standalone")
    if arguments.standalone or (arguments.no_spark and arguments.history is None):
        if prompt:
            raise UsageError(
                "--head off needs the history; leave out --standalone, and use Spark or --history DIR"
            )
        return None
    if not arguments.no_spark:
        missing = _too_old_for_spark(arguments.server_version) or missing_for_spark()
        if missing is not None:
            if prompt or asked:
                raise UsageError(missing)
            log.warning(COMPONENT, "Running without a history", reason=missing)
            return None
    history = arguments.history
    if history is None and arguments.data is not None:
        history = str((arguments.data / _HISTORY_FOLDER).absolute())
    if history is None:
        history = stack.enter_context(
            TemporaryDirectory(prefix="tailrace-history-", ignore_cleanup_errors=True)
        )
    return Pipeline(
        history=history,
        is_child=not arguments.no_spark,
        trigger=_trigger(arguments, prompt=prompt),
        niceness=0 if prompt else _LOW_PRIORITY,
        keep_seconds=arguments.keep_age,
        keep_bytes=arguments.keep_size,
        further=tuple(_further(arguments)),
    )


def _further(arguments: argparse.Namespace) -> list[str]:
    """The options of the server that are options of its pipeline."""
    found = []
    if arguments.spark_master is not None:
        found += ["--master", arguments.spark_master]
    for setting in arguments.spark_conf:
        found += ["--spark-conf", setting]
    for name in ("ns", "exclude"):
        for pattern in getattr(arguments, name):
            found += [f"--{name}={pattern}"]
    if arguments.backfill:
        found += ["--backfill"]
    return found


def _trigger(arguments: argparse.Namespace, *, prompt: bool) -> str:
    if not hasattr(arguments, "trigger"):
        return _PROMPT_TRIGGER if prompt else _CALM_TRIGGER
    if arguments.trigger is None:
        raise UsageError(
            "--trigger available-now would end the pipeline of a server; give a time, such as 5s"
        )
    return f"{arguments.trigger}s"


def _too_old_for_spark(server_version: str) -> str | None:
    """Why the pipeline cannot read from a server that presents this version; None if it can."""
    if Release.parse(server_version).has(_PIPELINE_CONNECTS):
        return None
    return f"the pipeline cannot read from a server of version {server_version}; use --no-spark"


def _progress(server: Server | Cluster) -> Progress | None:
    history = server.history
    return None if history is None else Progress(history.through, history.lags)


def new_child(
    server: Server | Cluster,
    source: "FrontedDeployment | None",
    pipeline: Pipeline,
    log: Logbook,
    folder: Path,
) -> PipelineChild:
    """The child process that builds the history of a running server, or of what it is in front of.

    ``folder`` is private; the child reads its connection string from a file there. Raises `UsageError` if it
    could not connect.
    """
    address = folder / "source"
    address.touch(mode=0o600)
    address.write_text(
        own_source(server, _PIPELINE_USER, PIPELINE_PRIVILEGES) if source is None else source.uri
    )
    # a history is built from what streams are served from
    via = [] if source is None else ["--via", source.via.value]
    return PipelineChild(
        pipeline.command(["--source-file", str(address), *via], _child_level(server.options.log_level)),
        log,
        niceness=pipeline.niceness,
        progress=lambda: _progress(server),
        silence_seconds=allowed_silence(duration(pipeline.trigger)),
        environment=without_options(os.environ, parser_of(_COMMAND).options, _COMMAND),
    )


def _child_level(level: str) -> str:
    """The level of the child's log: its lines of progress are needed, whatever the server's log shows."""
    return level if level == "debug" else "info"


def own_source(server: Server | Cluster, user: str, privileges: Iterable[Mapping[str, Any]]) -> str:
    """The connection string of a client of the server's own; its user exists in this process only."""
    uri, options = server.uri, server.options
    if options.auth:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        add_process_user(server.access, user, password, privileges)
        uri = uri.replace("://", f"://{user}:{password}@", 1)
    if options.tls is None:
        return uri
    address, _, shown = uri.partition("?")
    further = [part for part in shown.split("&") if part and part != "tls=true"]
    return f"{address}?{'&'.join([*further, urlencode(options.tls.pipeline_options())])}"
