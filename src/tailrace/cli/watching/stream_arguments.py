"""The arguments that describe a stream, for every command that opens one on a deployment."""

import argparse

from tailrace.cli.json_arguments import document_argument, time_argument, token_argument
from tailrace.client.options import Keywords
from tailrace.errors import UsageError


def add_stream_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
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
    add(
        "--merge-fragments",
        action="store_true",
        help="merge the fragments of events that the server has split",
    )


def stream_options(arguments: argparse.Namespace) -> Keywords:
    """The options of the stream; the server checks their values."""
    if arguments.max_await_time_ms is not None and arguments.max_await_time_ms < 0:
        # the server reads it only with the first getMore, when the stream is open
        raise UsageError("--max-await-time-ms is a number of milliseconds, 0 or more")
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
        time = time_argument("--start-at", arguments.start_at_operation_time)
        options["start_at_operation_time"] = time
    if arguments.collation is not None:
        options["collation"] = document_argument("--collation", arguments.collation)
    return options
