"""`tailrace watch`: print a change stream of any MongoDB deployment, or do something else with it.

With a token file it continues where it stopped, and writes its position to the file while it runs. The
position is written after its events are printed or stored, so that a crash repeats events and loses none.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError

from tailrace.cli.failures import StreamError
from tailrace.cli.json_arguments import stages_argument
from tailrace.cli.sources.connection import add_connection_arguments
from tailrace.cli.watching.deployment import (
    OUTAGE_SECONDS,
    address_argument,
    opened_stream,
    raw_client,
    stream_failure,
    watched_target,
)
from tailrace.cli.watching.outputs import Output, parquet_output
from tailrace.cli.watching.printing import add_output_arguments, printed_output
from tailrace.cli.watching.stream_arguments import add_stream_arguments, stream_options
from tailrace.client.options import Document
from tailrace.client.processing import process_stream, with_start
from tailrace.client.sync import watch
from tailrace.client.token_store import FileTokenStore
from tailrace.errors import UsageError
from tailrace.places import local_path
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.sources.deployments.driver_errors import hosts_of

HELP: Final = "print a change stream of a deployment, run a command for each event, or store them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        metavar="ADDRESS",
        nargs="*",
        help="the connection string of a deployment; then DB or DB.COLL, by default everything",
    )
    add_connection_arguments(parser)
    add_stream_arguments(parser)
    add("--max", type=int, metavar="N", help="end after N events")
    add(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="begin after the token in this file, and store the position there",
    )
    add_output_arguments(parser)
    add(
        "--into",
        metavar="FILE.parquet|DIR",
        help="write the events to a Parquet file, or to files in a folder, instead of printing them",
    )


def run(arguments: argparse.Namespace) -> int:
    pipeline = stages_argument("--pipeline", arguments.pipeline)
    if arguments.max is not None and arguments.max < 1:
        raise UsageError("--max is a number of events, 1 or more")
    if arguments.exec is not None and arguments.into is not None:
        raise UsageError("--exec and --into exclude each other; leave out one of them")
    uri = address_argument(arguments)
    namespace = _namespace(arguments.words)
    store = None if arguments.token_file is None else FileTokenStore(arguments.token_file)
    options = with_start(stream_options(arguments), None if store is None else store.load())
    open_output = _output(arguments)
    with raw_client(uri) as client:
        target = watched_target(client, namespace)
        try:
            stream = opened_stream(
                partial(watch, target, pipeline, merge_fragments=arguments.merge_fragments, **options)
            )
        except PyMongoError as error:
            raise stream_failure(error, uri, namespace) from None
        with _ended_by_sigterm(), stream, _opened(open_output, store) as (output, positions):
            _say_connected(uri, namespace)

            def handle(event: RawBSONDocument) -> None:
                output.take(event)
                if not stream.pending:
                    output.pause()

            try:
                process_stream(stream, handle, positions, max_events=arguments.max, max_outage=OUTAGE_SECONDS)
            except PyMongoError as error:
                raise StreamError(stream_failure(error, uri, namespace)) from None
    return 0


def _namespace(words: list[str]) -> str | None:
    if len(words) > 1:
        raise UsageError(f"unrecognized arguments: {' '.join(words[1:])}; see `tailrace watch --help`")
    return words[0] if words else None


def _output(arguments: argparse.Namespace) -> Callable[[], Output]:
    """What opens the output."""
    if arguments.into is None:
        return partial(printed_output, arguments)
    return parquet_output(local_path(arguments.into, "--into"))


def _say_connected(uri: ConnectionString, namespace: str | None) -> None:
    """A stream may be silent for long; on a terminal, say that it is open."""
    if sys.stderr is not None and sys.stderr.isatty():
        what = namespace or "everything"
        print(f"watching {what} at {hosts_of(uri)}; Ctrl-C ends it", file=sys.stderr, flush=True)


class _Positions:
    """Store the position in a file, if one is named, after the events before it are safe."""

    def __init__(self, store: FileTokenStore | None, output: Output) -> None:
        self._store = store
        self._output = output
        self._unsaved: Document | None = None

    def load(self) -> Document | None:
        return None if self._store is None else self._store.load()

    def save(self, token: Document) -> None:
        self._unsaved = token
        if self._store is not None and self._output.secure():
            self._store.save(token)
            self._unsaved = None

    def save_last(self) -> None:
        """Store the position after the output was closed."""
        if self._store is not None and self._unsaved is not None:
            self._store.save(self._unsaved)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does, but with exit code 0, so that files are complete."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _opened(
    open_output: Callable[[], Output], store: FileTokenStore | None
) -> Iterator[tuple[Output, _Positions]]:
    """Open the output once the stream is open, so that a stream that is refused leaves no file.

    It is closed at the end, also after an interruption; then the position that waited for it is stored.
    """
    output = open_output()
    positions = _Positions(store, output)
    try:
        yield output, positions
    finally:
        output.close()
        positions.save_last()
