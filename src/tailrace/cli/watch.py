"""`tailrace watch`: print a change stream of any MongoDB deployment, or do something else with it.

With a token file it continues where it stopped, and writes its position to the file while it runs. The
position is written after its events are printed or stored, so that a crash repeats events and loses none.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConfigurationError, InvalidName, InvalidURI, OperationFailure, PyMongoError

from tailrace.cli.failures import StreamError
from tailrace.cli.json_arguments import (
    document_argument,
    stages_argument,
    time_argument,
    token_argument,
    utf8_argument,
)
from tailrace.cli.sources.connection import (
    SOURCE_VARIABLE,
    add_connection_arguments,
    connection_string,
    without_scheme,
)
from tailrace.cli.sources.namespaces import namespace_argument
from tailrace.cli.watching.forms import coloured, pretty, relaxed
from tailrace.cli.watching.outputs import CommandForEach, Output, PrintedEvents, parquet_output
from tailrace.client.options import Document, Keywords
from tailrace.client.processing import process_stream, with_start
from tailrace.client.sync import ChangeStream, watch
from tailrace.client.token_store import FileTokenStore
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.places import local_path
from tailrace.sources.deployments.connection_string import ConnectionString, is_uri
from tailrace.sources.deployments.driver_errors import command_error, hosts_of, in_brief

HELP: Final = "print a change stream of a deployment, run a command for each event, or store them"

_SELECTION: Final = "serverSelectionTimeoutMS"
_SELECTION_MS: Final = 10_000
_OUTAGE: Final = 60.0
"""Seconds that a server may be unreachable while a stream is read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "words",
        metavar="ADDRESS",
        nargs="*",
        help="the connection string of a deployment; then DB or DB.COLL, by default everything",
    )
    add_connection_arguments(parser)
    add("--options", default="{}", metavar="JSON", help="the $changeStream document")
    add("--full-document", metavar="MODE", help="updateLookup, whenAvailable or required")
    add("--full-document-before-change", metavar="MODE", help="whenAvailable or required")
    add("--resume-after", metavar="TOKEN", help="begin after the event of this token: hex text, or JSON")
    add("--start-after", metavar="TOKEN", help="the same, also after an invalidate event")
    add(
        "--start-at-operation-time",
        "--start-at",
        metavar="TIME",
        help="begin at this time: 2026-11-17T20:00:00Z, or a timestamp as JSON",
    )
    add(
        "--show-expanded-events",
        action="store_true",
        help="also show creations, index builds and other events of that kind",
    )
    add("--pipeline", default="[]", metavar="JSON", help="array of the stages after $changeStream")
    add("--collation", metavar="JSON", help="collation of the pipeline's stages")
    add("--batch-size", type=int, metavar="N", help="most events that the server sends at once")
    add("--max-await-time-ms", type=int, metavar="MS", help="how long the server waits for an event")
    add("--max", type=int, metavar="N", help="end after N events")
    add(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="begin after the token in this file, and store the position there",
    )
    add(
        "--merge-fragments",
        action="store_true",
        help="merge the fragments of events that the server has split",
    )
    add("--pretty", action="store_true", help="print one field to a line, indented")
    add("--relaxed", action="store_true", help="print relaxed Extended JSON: plain numbers, readable dates")
    add(
        "--color",
        choices=["auto", "always", "never"],
        default="auto",
        help="whether to colour the output; default: on a terminal, unless NO_COLOR is set",
    )
    add(
        "--exec",
        metavar="CMD",
        help="run a shell command for each event, which gets it on standard input, instead of printing",
    )
    add(
        "--into",
        metavar="FILE.parquet|DIR",
        help="write the events to a Parquet file, or to files in a folder, instead of printing them",
    )


def run(arguments: argparse.Namespace) -> int:
    pipeline = stages_argument("--pipeline", arguments.pipeline)
    if arguments.max is not None and arguments.max < 1:
        raise UsageError("--max is a number of events, 1 or more")
    arguments.uri, arguments.ns = _target(arguments)
    output = _output(arguments)
    positions = _Positions(arguments.token_file, output)
    options = with_start(_options(arguments), positions.load())
    with (
        _client(arguments.uri) as client,
        _opened(client, arguments.ns, pipeline, options, arguments) as stream,
        _finished(output, positions),
    ):
        _say_connected(arguments)

        def handle(event: RawBSONDocument) -> None:
            output.take(event)
            if not stream.pending:
                output.pause()

        try:
            process_stream(stream, handle, positions, max_events=arguments.max, max_outage=_OUTAGE)
        except PyMongoError as error:
            raise StreamError(_command_error(error, arguments)) from None
    return 0


def _output(arguments: argparse.Namespace) -> Output:
    if arguments.exec is not None and arguments.into is not None:
        raise UsageError("--exec and --into exclude each other; leave out one of them")
    if arguments.into is not None:
        return parquet_output(local_path(arguments.into, "--into"))
    steps: list[Callable[[str], str]] = []
    if arguments.relaxed:
        steps.append(relaxed)
    if arguments.pretty:
        steps.append(pretty)
    if arguments.exec is not None:
        return CommandForEach(
            arguments.exec, lambda text: reduce(lambda found, step: step(found), steps, text)
        )
    if _wants_colours(arguments.color):
        steps.append(coloured)
    return PrintedEvents(lambda text: reduce(lambda found, step: step(found), steps, text))


def _wants_colours(choice: str) -> bool:
    if choice != "auto":
        return choice == "always"
    return sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _say_connected(arguments: argparse.Namespace) -> None:
    """A stream may be silent for long; on a terminal, say that it is open."""
    if sys.stderr is not None and sys.stderr.isatty():
        what = arguments.ns or "everything"
        print(f"watching {what} at {hosts_of(arguments.uri)}; Ctrl-C ends it", file=sys.stderr, flush=True)


def _target(arguments: argparse.Namespace) -> tuple[ConnectionString, str | None]:
    """The deployment, and the namespace in it."""
    words: list[str] = arguments.words
    is_elsewhere = arguments.source_file is not None or SOURCE_VARIABLE in os.environ
    given = words.pop(0) if words and (is_uri(words[0]) or not is_elsewhere) else None
    uri = connection_string(arguments, given)
    if uri is None:
        raise UsageError("name the deployment: its address, or --source-file FILE with it")
    if len(words) > 1:
        raise UsageError(f"unrecognized arguments: {' '.join(words[1:])}; see `tailrace watch --help`")
    return uri, words[0] if words else None


def _options(arguments: argparse.Namespace) -> Keywords:
    """The options of the stream; the server checks their values."""
    options: Keywords = {
        "full_document": arguments.full_document,
        "full_document_before_change": arguments.full_document_before_change,
        "show_expanded_events": arguments.show_expanded_events or None,
        "batch_size": arguments.batch_size,
        "max_await_time_ms": arguments.max_await_time_ms,
        "stage_options": document_argument("--options", arguments.options),
    }
    if arguments.resume_after is not None:
        options["resume_after"] = token_argument("--resume-after", arguments.resume_after)
    if arguments.start_after is not None:
        options["start_after"] = token_argument("--start-after", arguments.start_after)
    if arguments.start_at_operation_time is not None:
        time = time_argument("--start-at-operation-time", arguments.start_at_operation_time)
        options["start_at_operation_time"] = time
    if arguments.collation is not None:
        options["collation"] = document_argument("--collation", arguments.collation)
    return options


def _client(uri: ConnectionString) -> MongoClient[RawBSONDocument]:
    """Return a client that does not decode documents: they are printed from their bytes."""
    defaults: dict[str, Any] = {} if _SELECTION.lower() in uri.lower() else {_SELECTION: _SELECTION_MS}
    try:
        return MongoClient(utf8_argument("ADDRESS", uri), document_class=RawBSONDocument, **defaults)
    except (InvalidURI, ConfigurationError, ValueError, OSError) as error:  # OSError: a file of certificates
        reason = without_scheme(uri.shown) or error
        raise UsageError(f"{uri.shown} is not the address of a deployment: {reason}") from None


def _opened(
    client: MongoClient[RawBSONDocument],
    namespace: str | None,
    pipeline: list[dict[str, Any]],
    options: Keywords,
    arguments: argparse.Namespace,
) -> ChangeStream[RawBSONDocument]:
    target: MongoClient[RawBSONDocument] | Database[RawBSONDocument] | Collection[RawBSONDocument] = client
    if namespace is not None:
        database, collection = namespace_argument("NAMESPACE", namespace)
        try:
            target = client[database] if collection is None else client[database][collection]
        except InvalidName as error:
            raise UsageError(f"{namespace} is not a namespace: {error}") from None
    try:
        return watch(target, pipeline, merge_fragments=arguments.merge_fragments, **options)
    except PyMongoError as error:
        raise _command_error(error, arguments) from None


def _command_error(error: PyMongoError, arguments: argparse.Namespace) -> CommandError:
    """Turn the server's error, or the reason why it did not answer, into our own error."""
    if isinstance(error, OperationFailure):
        right = f"changeStream and find on {arguments.ns or 'all databases'}"
        return command_error(error, arguments.uri, right)
    details = getattr(error, "details", None)
    if isinstance(details, Mapping) and "code" in details:
        return CommandError(details["code"], str(details.get("errmsg", "the server gave no reason")))
    return CommandError(ErrorCode.HostUnreachable, f"the deployment does not answer: {in_brief(error)}")


class _Positions:
    """Store the position in a file, if one is named, after the events before it are safe."""

    def __init__(self, path: Path | None, output: Output) -> None:
        self._file = None if path is None else FileTokenStore(path)
        self._output = output
        self._unsaved: Document | None = None

    def load(self) -> Document | None:
        return None if self._file is None else self._file.load()

    def save(self, token: Document) -> None:
        self._unsaved = token
        if self._file is not None and self._output.secure():
            self._file.save(token)
            self._unsaved = None

    def save_last(self) -> None:
        """Store the position after the output was closed."""
        if self._file is not None and self._unsaved is not None:
            self._file.save(self._unsaved)


@contextmanager
def _finished(output: Output, positions: _Positions) -> Iterator[None]:
    """Close the output at the end, also after an interruption; then store the position that it waited for."""
    try:
        yield
    finally:
        output.close()
        positions.save_last()
