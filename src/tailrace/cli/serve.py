"""`tailrace serve`: run a replica set or a sharded cluster that MongoDB's drivers and tools connect to.

Standard output gets one line, when the server accepts connections; the log is written to standard error.
SIGTERM and SIGINT end the server as `shutdown` does: acknowledged writes are on disk, and the exit code is 0.

Without `--no-spark` the Spark pipeline runs as a child process (`pipeline_child.py`), so that streams can be
resumed from any time. If Spark is not installed, the server runs without it and logs what to install.
"""

import argparse
import asyncio
import ctypes
import gc
import os
import resource
import secrets
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.cli.output import print_line
from tailrace.cli.pipeline import duration
from tailrace.cli.private_files import private_files
from tailrace.cli.spark_needs import missing_for_spark
from tailrace.errors import UsageError
from tailrace.events.stream_release import Since
from tailrace.log_lines import LEVELS
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.server.access.process_users import PIPELINE_PRIVILEGES, add_process_user
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.emulation.release import Release
from tailrace.mongod.server.emulation.version import VERSION
from tailrace.mongod.server.net.event_loop import new_event_loop
from tailrace.mongod.server.net.loop_faults import LoopFaults
from tailrace.mongod.server.options import (
    DEFAULT_CONNECTIONS,
    DEFAULT_PORT,
    DEFAULT_REPLICA_SET,
    ServerOptions,
)
from tailrace.mongod.server.server import Server
from tailrace.mongod.server.streams.pipeline_child import COMPONENT, PipelineChild, Progress, allowed_silence
from tailrace.mongod.store.store import DEFAULT_OPLOG_SIZE
from tailrace.mongod.store.tables import DEFAULT_MAP_SIZE

HELP: Final = "run a replica set or a sharded cluster for any MongoDB driver"

_HISTORY_FOLDER: Final = "history"
_CALM_TRIGGER: Final = "5s"
_PROMPT_TRIGGER: Final = "0s"
"""Without a head, clients wait for the pipeline: a batch begins as soon as there are entries."""
_LOW_PRIORITY: Final = 10
"""Niceness of the pipeline while streams read new events from the head and no client waits for it."""
_PIPELINE_CONNECTS: Final[Since] = ((4, 4, 2),)
"""PyMongo accepts no older servers, and the pipeline calls `hello`."""
_USER_VARIABLE: Final = "TAILRACE_AUTH_USER"
_PIPELINE_USER: Final = "__pipeline"
_PASSWORD_BYTES: Final = 32
_PASSWORD_VARIABLE: Final = "TAILRACE_AUTH_PASSWORD_FILE"
_COLLECTOR_THRESHOLDS: Final = (20_000, 20, 50)
_MEGABYTE: Final = 1 << 20
_MAX_OPLOG_MEGABYTES: Final = 1 << 20
_GIGABYTE: Final = 1 << 30
_MAX_GIGABYTES: Final = 1 << 14
_M_MMAP_THRESHOLD: Final = -3
"""glibc's parameter for the size above which a block is mapped, and is not part of the heap."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        help="port to listen on, or the first of them; 0 picks a free one; default: %(default)s",
    )
    add(
        "--host",
        default="127.0.0.1",
        help="address to listen on; 0.0.0.0 is all of them; default: %(default)s",
    )
    add(
        "--advertise",
        metavar="HOST:PORT",
        help="address that clients connect to, if it differs from the one listened on; several are "
        "separated by commas",
    )
    add(
        "--data",
        metavar="DIR",
        type=Path,
        help="data directory; default: a temporary one, removed at the end",
    )
    add(
        "--oplog-size",
        metavar="MB",
        type=int,
        default=DEFAULT_OPLOG_SIZE // _MEGABYTE,
        help="size above which the oldest oplog entries are removed; default: %(default)s",
    )
    add(
        "--max-size",
        metavar="GB",
        type=int,
        default=DEFAULT_MAP_SIZE // _GIGABYTE,
        help="largest size of the data directory; default: %(default)s",
    )
    add(
        "--replica-set",
        metavar="NAME",
        default=DEFAULT_REPLICA_SET,
        help="name of the replica set; default: %(default)s",
    )
    add(
        "--members",
        metavar="N",
        type=int,
        default=1,
        help="number of members: one process that listens on N ports, beginning with --port; default: 1",
    )
    add(
        "--shards",
        metavar="N",
        type=int,
        default=0,
        help="run a sharded cluster of N shards; clients connect to its routers",
    )
    add(
        "--routers",
        metavar="M",
        type=int,
        default=1,
        help="number of routers of the cluster, on ports beginning with --port; default: 1",
    )
    add(
        "--max-connections",
        metavar="N",
        type=int,
        default=DEFAULT_CONNECTIONS,
        help="most connections that are open at the same time; further ones are closed; default: %(default)s",
    )
    add(
        "--server-version",
        metavar="X.Y.Z",
        default=VERSION,
        help="MongoDB version to present, 4.0 or later: drivers and change streams see what that version "
        "shows; default: %(default)s",
    )
    add(
        "--standalone",
        action="store_true",
        help="run a server without a replica set: no change streams, no transactions",
    )
    add(
        "--auth",
        action="store_true",
        help="clients have to log in, and may do only what their users have rights to",
    )
    add(
        "--auth-user",
        metavar="NAME",
        default=os.environ.get(_USER_VARIABLE),
        help=f"the first user, an administrator; created if there are no users. Default: {_USER_VARIABLE}",
    )
    add(
        "--auth-password-file",
        metavar="FILE",
        type=Path,
        default=os.environ.get(_PASSWORD_VARIABLE),
        help=f"the file with the password of the first user. Default: {_PASSWORD_VARIABLE}",
    )
    add(
        "--history",
        metavar="DIR",
        type=Path,
        help="folder of the history of all events; default: the folder history in the data directory",
    )
    add(
        "--no-spark",
        action="store_true",
        help="run no pipeline: streams can be resumed only as far back as the oplog goes",
    )
    add("--spark-master", metavar="M", help="Spark's master for the pipeline; default: this machine")
    add(
        "--head",
        choices=["on", "off"],
        default="on",
        help="off: streams show only what the pipeline has written to the history; default: on",
    )
    add(
        "--log-level",
        choices=LEVELS,
        default="info",
        help="lowest level that is logged to standard error; default: info",
    )
    add(
        "--set-parameter",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a server parameter that differs from its default; may be repeated",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal or the command `shutdown`."""
    options = _options(arguments)
    log = Logbook(options.log_level, sys.stderr)
    with ExitStack() as stack:
        stack.enter_context(private_files())
        pipeline = _pipeline(arguments, log, stack)
        if pipeline is not None:
            options = replace(options, history=pipeline.history)
        _allow_many_connections()
        _return_large_blocks()
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            folder = stack.enter_context(TemporaryDirectory(prefix="tailrace-"))
            runner.run(_serve(options, log, pipeline, Path(folder)))
    return 0


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The pipeline that builds a server's history."""

    history: Path
    is_child: bool
    """False: another process builds this history."""
    master: str | None
    trigger: str
    niceness: int

    def command(self, source: list[str], log_level: str) -> list[str]:
        """The child's command line; ``source`` are the arguments that name the deployment."""
        master = [] if self.master is None else ["--master", self.master]
        return [
            *(sys.executable, "-m", "tailrace", "pipeline", *source, "--history", str(self.history)),
            *("--trigger", self.trigger, "--log-level", log_level, "--end-with-input", *master),
        ]


def _pipeline(arguments: argparse.Namespace, log: Logbook, stack: ExitStack) -> Pipeline | None:
    """Return the pipeline that the options ask for; None for a server without a history."""
    prompt = arguments.head == "off"
    if arguments.standalone or (arguments.no_spark and arguments.history is None):
        if prompt:
            raise UsageError(
                "--head off needs the history; leave out --standalone, and use Spark or --history DIR"
            )
        if arguments.spark_master is not None:
            raise UsageError(
                "--spark-master is for a server with a pipeline; leave out --no-spark and --standalone"
            )
        return None
    if not arguments.no_spark:
        missing = _too_old_for_spark(arguments.server_version) or missing_for_spark()
        if missing is not None:
            if prompt or arguments.spark_master is not None:
                raise UsageError(missing)
            log.warning(COMPONENT, "Running without a history", reason=missing)
            return None
    history = arguments.history
    if history is None and arguments.data is not None:
        history = arguments.data / _HISTORY_FOLDER
    if history is None:
        history = Path(
            stack.enter_context(TemporaryDirectory(prefix="tailrace-history-", ignore_cleanup_errors=True))
        )
    return Pipeline(
        history=history.absolute(),
        is_child=not arguments.no_spark,
        master=arguments.spark_master,
        trigger=_PROMPT_TRIGGER if prompt else _CALM_TRIGGER,
        niceness=0 if prompt else _LOW_PRIORITY,
    )


def _too_old_for_spark(server_version: str) -> str | None:
    """Why the pipeline cannot read from a server that presents this version; None if it can."""
    if Release.parse(server_version).has(_PIPELINE_CONNECTS):
        return None
    return f"the pipeline cannot read from a server of version {server_version}; use --no-spark"


def _allow_many_connections() -> None:
    """Raise the limit of open files to the most that the system allows; each connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # a system may refuse the limit that it reports; the old one stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _return_large_blocks() -> None:
    """Make glibc return the memory of replies of many megabytes to the system once they are sent.

    By default glibc raises its threshold with every large block that is freed, up to 32 MB. Replies are then
    part of the heap and fragment it: each slow client that came and went made the process grow by 9 MB.
    """
    with suppress(AttributeError, OSError):  # other C libraries have no such parameter
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MEGABYTE)


def _options(arguments: argparse.Namespace) -> ServerOptions:
    if not 0 <= arguments.port <= 65535:
        raise UsageError(f"{arguments.port} is not a port; give --port a number from 0 to 65535")
    if not 1 <= arguments.oplog_size <= _MAX_OPLOG_MEGABYTES:
        raise UsageError(f"--oplog-size is a number of megabytes from 1 to {_MAX_OPLOG_MEGABYTES}")
    if not 1 <= arguments.max_size <= _MAX_GIGABYTES:
        raise UsageError(f"--max-size is a number of gigabytes from 1 to {_MAX_GIGABYTES}")
    if arguments.max_connections < 1:
        raise UsageError("--max-connections is a number of at least 1")
    if not arguments.replica_set:
        raise UsageError("a replica set needs a name; use --standalone for a server without one")
    return ServerOptions(
        host=arguments.host,
        port=arguments.port,
        advertise=_address(arguments.advertise),
        data=arguments.data,
        replica_set=None if arguments.standalone else arguments.replica_set,
        members=arguments.members,
        shards=arguments.shards,
        routers=arguments.routers,
        server_version=arguments.server_version,
        auth=arguments.auth,
        first_user=_first_user(arguments) if arguments.auth else None,
        oplog_bytes=arguments.oplog_size * _MEGABYTE,
        max_bytes=arguments.max_size * _GIGABYTE,
        max_connections=arguments.max_connections,
        head=arguments.head == "on",
        log_level=arguments.log_level,
        parameters=dict(_parameter(text) for text in arguments.set_parameter),
        arguments=tuple(sys.argv[1:]),
    )


def _first_user(arguments: argparse.Namespace) -> tuple[str, str] | None:
    """Name and password; the password is read from a file, because every user of a machine sees arguments."""
    name, path = arguments.auth_user, arguments.auth_password_file
    if name is None and path is None:
        return None
    if not name or path is None:
        raise UsageError("the first user needs both --auth-user NAME and --auth-password-file FILE")
    try:
        password = Path(path).read_text().removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the password cannot be read from {path}: {error}") from None
    if not password:
        raise UsageError(f"the file {path} with the password of the first user is empty")
    return name, password


def _address(text: str | None) -> str | None:
    if text is None:
        return None
    for address in text.split(","):
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isdecimal():
            raise UsageError(f"--advertise takes HOST:PORT, not {address}")
    return text


def _parameter(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--set-parameter takes NAME=VALUE, not {text}")
    return name, value


def _progress(server: Server | Cluster) -> Progress | None:
    history = server.history
    return None if history is None else Progress(history.through, history.lags)


def _write_source(server: Server | Cluster, folder: Path) -> Path:
    """Write the connection string of the pipeline's own user to a file that only this user can read."""
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    add_process_user(server.access, _PIPELINE_USER, password, PIPELINE_PRIVILEGES)
    path = folder / "source"
    path.touch(mode=0o600)
    path.write_text(server.uri.replace("://", f"://{_PIPELINE_USER}:{password}@", 1))
    return path


async def _serve(options: ServerOptions, log: Logbook, pipeline: Pipeline | None, folder: Path) -> None:
    loop = asyncio.get_running_loop()
    server = Cluster(options, log=log) if options.shards else Server(options, log=log)
    loop.set_exception_handler(LoopFaults(server.log))
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    await server.start()
    child: PipelineChild | None = None
    if pipeline is not None and pipeline.is_child:
        source = ["--source", server.uri]
        if options.auth:
            source = ["--source-file", str(_write_source(server, folder))]
        child = PipelineChild(
            pipeline.command(source, options.log_level),
            log,
            niceness=pipeline.niceness,
            progress=lambda: _progress(server),
            silence_seconds=allowed_silence(duration(pipeline.trigger)),
        )
        server.pipeline_status = child.status
        child.start()
    # What was loaded so far stays, so the collector need not scan it again. The rest it need not scan often:
    # thousands of documents and events live for a moment, and few objects are in cycles.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTOR_THRESHOLDS)
    try:
        print_line(f"ready {server.uri}")
        with writing_to(STANDARD_OUTPUT):
            sys.stdout.flush()
        stopped = loop.create_task(server.wait_stopped())
        await asyncio.wait([loop.create_task(ending.wait()), stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        if child is not None:
            await child.stop()
        await server.stop()
