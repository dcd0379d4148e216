"""`tailrace watch`: a change stream of any MongoDB deployment, printed as Extended JSON lines.

With a token file it goes on where it stopped, and writes its position there as it proceeds; the file is
written after the events before it, so that a crash repeats events and loses none.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.database import Database
from pymongo.errors import ConfigurationError, InvalidName, InvalidURI, PyMongoError

from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.failures import STANDARD_OUTPUT, StreamError, writing_to
from tailrace.cli.json_arguments import document_argument, stages_argument, utf8_argument, value_argument
from tailrace.cli.output import print_line
from tailrace.client.options import Document, Keywords
from tailrace.client.processing import process_stream, with_start
from tailrace.client.sync import ChangeStream, watch
from tailrace.client.token_store import FileTokenStore
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError

HELP: Final = "print the change stream of a deployment as Extended JSON lines"

_SELECTION: Final = "serverSelectionTimeoutMS"
_SELECTION_MS: Final = 10_000
_OUTAGE: Final = 60.0
"""Seconds that a server may be unreachable while a stream is read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("uri", metavar="ADDRESS", help="the connection string of a deployment")
    add(
        "ns", metavar="NAMESPACE", nargs="?", help="DB or DB.COLL: one database or collection, not everything"
    )
    add("--options", default="{}", metavar="JSON", help="the $changeStream document")
    add("--full-document", metavar="MODE", help="updateLookup, whenAvailable or required")
    add("--full-document-before-change", metavar="MODE", help="whenAvailable or required")
    add("--resume-after", metavar="JSON", help="begin behind the event of this token")
    add("--start-after", metavar="JSON", help="the same, also behind an invalidation")
    add("--start-at-operation-time", metavar="JSON", help="begin at this timestamp")
    add("--show-expanded-events", action="store_true", help="also show index builds, creations and the like")
    add("--pipeline", default="[]", metavar="JSON", help="array of the stages behind $changeStream")
    add("--collation", metavar="JSON", help="collation of these stages")
    add("--batch-size", type=int, metavar="N", help="events that the server sends at once, at most")
    add("--max-await-time-ms", type=int, metavar="MS", help="how long the server waits for an event")
    add("--max", type=int, metavar="N", help="end after so many events")
    add("--token-file", type=Path, metavar="FILE", help="go on behind the token in this file, and keep it")
    add("--merge-fragments", action="store_true", help="put events together that the server has split")


def run(arguments: argparse.Namespace) -> int:
    """Print events until the stream ends, or so many were printed."""
    pipeline = stages_argument("--pipeline", arguments.pipeline)
    if arguments.max is not None and arguments.max < 1:
        raise UsageError("--max is a number of events, 1 or more")
    positions = _Positions(arguments.token_file)
    options = with_start(_options(arguments), positions.load())
    with (
        _client(arguments.uri) as client,
        _opened(client, arguments.ns, pipeline, options, arguments) as stream,
    ):
        try:
            process_stream(stream, _Printer(stream), positions, max_events=arguments.max, max_outage=_OUTAGE)
        except PyMongoError as error:
            raise StreamError(_command_error(error)) from None
    return 0


def _options(arguments: argparse.Namespace) -> Keywords:
    """The options of the stream; what they may be, the server knows."""
    options: Keywords = {
        "full_document": arguments.full_document,
        "full_document_before_change": arguments.full_document_before_change,
        "show_expanded_events": arguments.show_expanded_events or None,
        "batch_size": arguments.batch_size,
        "max_await_time_ms": arguments.max_await_time_ms,
        "stage_options": document_argument("--options", arguments.options),
    }
    if arguments.resume_after is not None:
        options["resume_after"] = document_argument("--resume-after", arguments.resume_after)
    if arguments.start_after is not None:
        options["start_after"] = document_argument("--start-after", arguments.start_after)
    if arguments.start_at_operation_time is not None:
        time = value_argument("--start-at-operation-time", arguments.start_at_operation_time)
        options["start_at_operation_time"] = time
    if arguments.collation is not None:
        options["collation"] = document_argument("--collation", arguments.collation)
    return options


def _client(uri: str) -> MongoClient[RawBSONDocument]:
    """A client whose documents stay bytes: they are printed as they came."""
    defaults: dict[str, Any] = {} if _SELECTION.lower() in uri.lower() else {_SELECTION: _SELECTION_MS}
    try:
        return MongoClient(utf8_argument("ADDRESS", uri), document_class=RawBSONDocument, **defaults)
    except (InvalidURI, ConfigurationError, ValueError) as error:
        raise UsageError(f"{uri} is not the address of a deployment: {error}") from None


def _opened(
    client: MongoClient[RawBSONDocument],
    namespace: str | None,
    pipeline: list[dict[str, Any]],
    options: Keywords,
    arguments: argparse.Namespace,
) -> ChangeStream[RawBSONDocument]:
    target: MongoClient[RawBSONDocument] | Database[RawBSONDocument] | Collection[RawBSONDocument] = client
    if namespace is not None:
        database, dot, collection = utf8_argument("NAMESPACE", namespace).partition(".")
        try:
            target = client[database][collection] if dot else client[database]
        except InvalidName as error:
            raise UsageError(f"{namespace} is no namespace: {error}") from None
    try:
        return watch(target, pipeline, merge_fragments=arguments.merge_fragments, **options)
    except PyMongoError as error:
        raise _command_error(error) from None


def _command_error(error: PyMongoError) -> CommandError:
    """The server's answer as our own error, or what kept the server from answering."""
    details = getattr(error, "details", None)
    if isinstance(details, Mapping) and "code" in details:
        return CommandError(details["code"], str(details.get("errmsg", "the server gave no reason")))
    reason = str(error).partition(" (configured timeouts")[0]
    return CommandError(ErrorCode.HostUnreachable, f"the deployment does not answer: {reason}")


class _Printer:
    """Writes events to standard output, and shows them before it waits for more."""

    def __init__(self, stream: ChangeStream[RawBSONDocument]) -> None:
        self._stream = stream

    def __call__(self, event: RawBSONDocument) -> None:
        print_line(dumps_canonical(bytes(event.raw)))
        if not self._stream.pending:
            _flush()


class _Positions:
    """The position in a file, if one is named; the events before it are shown first."""

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else FileTokenStore(path)

    def load(self) -> Document | None:
        return None if self._file is None else self._file.load()

    def save(self, token: Document) -> None:
        if self._file is not None:
            _flush()
            self._file.save(token)


def _flush() -> None:
    with writing_to(STANDARD_OUTPUT):
        sys.stdout.flush()
