"""`tailrace serve`: run a replica set or a sharded cluster that MongoDB's drivers and tools connect to.

With `--source` it serves the change streams of another deployment instead (`mongod/front/`).

Standard output gets two lines when the server accepts connections: its address, and that of its page. The
log is written to standard error.
SIGTERM and SIGINT end the server as `shutdown` does: acknowledged writes are on disk, and the exit code is 0.
SIGHUP makes it read its certificates again, and SIGUSR1 open its audit log again.

Without `--no-spark` the Spark pipeline runs as a child process (`pipeline_child.py`), so that streams can be
resumed from any time. If Spark is not installed, the server runs without it and logs what to install.
"""

import argparse
import asyncio
import ctypes
import resource
import signal
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from tailrace.cli.failures import STANDARD_OUTPUT, writing_to
from tailrace.cli.logs.output import log_output
from tailrace.cli.output import print_line
from tailrace.cli.private_files import private_files
from tailrace.cli.serving.arguments import add_arguments, read_arguments
from tailrace.cli.serving.front_arguments import source_of
from tailrace.cli.serving.own_page import bind_page, start_page
from tailrace.cli.serving.own_pipeline import Pipeline, new_child, pipeline_of
from tailrace.errors import UsageError
from tailrace.mongod.cluster.cluster import Cluster
from tailrace.mongod.server.admin.audit import AuditLog
from tailrace.mongod.server.admin.logbook import Logbook
from tailrace.mongod.server.net.event_loop import new_event_loop
from tailrace.mongod.server.net.garbage import start_freeing
from tailrace.mongod.server.net.loop_faults import LoopFaults
from tailrace.mongod.server.net.tls import Tls
from tailrace.mongod.server.options import ServerOptions
from tailrace.mongod.server.server import Server
from tailrace.mongod.server.streams.pipeline_child import PipelineChild
from tailrace.traces import Traces, wanted_traces
from tailrace.web.http_thread import HttpThread

if TYPE_CHECKING:
    from tailrace.mongod.front.deployment import FrontedDeployment

__all__ = ["HELP", "add_arguments", "run"]

HELP: Final = "run a replica set or a sharded cluster for any MongoDB driver"

_MEGABYTE: Final = 1 << 20
_M_MMAP_THRESHOLD: Final = -3
"""glibc's parameter for the size above which a block is mapped, and is not part of the heap."""


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal or the command `shutdown`."""
    options = read_arguments(arguments)
    with ExitStack() as stack:
        log = Logbook(
            options.log_level, stack.enter_context(log_output(arguments.log_format, options.log_level))
        )
        if options.audit is not None:
            stack.callback(options.audit.close)
        traces = _traces(log)
        if traces is not None:
            stack.callback(traces.close)
            options = replace(options, traces=traces)
        stack.enter_context(private_files())
        source = source_of(arguments)
        has_pipeline = source is None or arguments.history is not None
        pipeline = pipeline_of(arguments, log, stack) if has_pipeline else None
        if pipeline is not None:
            options = replace(options, history=pipeline.history)
            if pipeline.is_child and options.tls is not None:
                options.tls.pipeline_options()  # refuses what the child could not connect with
        page = bind_page(arguments, options, log)
        if page is not None:
            stack.callback(page.stop)
        _allow_many_connections()
        _return_large_blocks()
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            folder = stack.enter_context(TemporaryDirectory(prefix="tailrace-"))
            runner.run(_serve(options, log, pipeline, page, Path(folder), source))
    return 0


def _traces(log: Logbook) -> Traces | None:
    """The traces that the environment asks for, which others may have set for all processes."""
    try:
        return wanted_traces()
    except UsageError as error:
        log.warning("CONTROL", "Running without traces", reason=str(error))
        return None


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


def _read_certificates_again(tls: Tls, log: Logbook) -> None:
    try:
        tls.reload()
    except UsageError as error:
        log.error("NETWORK", "The certificates stay as they are", error=str(error))
    else:
        log.info("NETWORK", "Read the certificates again")


def _open_audit_log_again(audit: AuditLog, log: Logbook) -> None:
    try:
        audit.reopen()
    except UsageError as error:
        log.error("ACCESS", "The audit log stays the old file", error=str(error))


def _server(options: ServerOptions, log: Logbook, source: "FrontedDeployment | None") -> Server | Cluster:
    if source is not None:
        from tailrace.mongod.front.front import Front  # needs packages that other servers do without

        return Front(source, options, log=log)
    return Cluster(options, log=log) if options.shards else Server(options, log=log)


async def _serve(
    options: ServerOptions,
    log: Logbook,
    pipeline: Pipeline | None,
    page: HttpThread | None,
    folder: Path,
    source: "FrontedDeployment | None",
) -> None:
    loop = asyncio.get_running_loop()
    server = _server(options, log, source)
    loop.set_exception_handler(LoopFaults(server.log))
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    if options.tls is not None:
        loop.add_signal_handler(signal.SIGHUP, _read_certificates_again, options.tls, log)
    if options.audit is not None:
        loop.add_signal_handler(signal.SIGUSR1, _open_audit_log_again, options.audit, log)
    await server.start()
    child: PipelineChild | None = None
    if pipeline is not None and pipeline.is_child:
        child = new_child(server, source, pipeline, log, folder)
        server.pipeline_status = child.status
        child.start()
    freeing = start_freeing()
    try:
        print_line(f"ready {server.uri}")
        if page is not None:
            start_page(page, server, pipeline, log)
            print_line(f"page {page.address}")
        with writing_to(STANDARD_OUTPUT):
            sys.stdout.flush()
        stopped = loop.create_task(server.wait_stopped())
        await asyncio.wait([loop.create_task(ending.wait()), stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        freeing.cancel()
        if page is not None:
            await asyncio.to_thread(page.stop)
        if child is not None:
            await child.stop()
        await server.stop()
        if options.audit is not None and ending.is_set():
            with suppress(OSError):
                options.audit.system("shutdown", {})
    if server.failure is not None:
        raise server.failure
