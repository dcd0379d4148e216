"""`tailrace verify`: compare what a pipeline has written with its source."""

import argparse
import json
from collections.abc import Iterator
from typing import Any, Final

from bson import Timestamp

from tailrace.bson import extjson
from tailrace.bson.extjson import dumps_canonical
from tailrace.cli.json_arguments import document_argument, stages_argument, time_argument
from tailrace.cli.output import print_line
from tailrace.cli.sources.connection import add_connection_arguments, connection_string
from tailrace.cli.sources.namespaces import namespace_argument
from tailrace.cli.watching.forms import relaxed
from tailrace.errors import UsageError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.scope import Namespace, Scope
from tailrace.places import history_place
from tailrace.sources.deployments.connection_string import is_uri

HELP: Final = "compare the events or documents that a pipeline has written with its source"

_EVENTS, _DOCUMENTS = "events", "documents"
_LABEL_WIDTH: Final = 18


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--source", metavar="URI|DIR", help="the deployment, or a history of it")
    add_connection_arguments(parser)
    add(
        "--sink",
        required=True,
        metavar="PLACE",
        help="what was written: files of JSON lines or Parquet, a Delta table, or the connection string of a "
        "deployment",
    )
    add("--sink-ns", metavar="DB.COLL", help="the collection of a sink that is a deployment")
    add("--ns", metavar="DB[.COLL]", help="what was watched; default: the whole deployment")
    add(
        "--kind",
        choices=[_EVENTS, _DOCUMENTS],
        default=_EVENTS,
        help="what the sink has: the events of a stream, or the documents of a collection as they are now; "
        "default: %(default)s",
    )
    add(
        "--column",
        metavar="NAME",
        help="the column of a table with the event or the document, as BSON or Extended JSON; default: event "
        "for events, document or fullDocument for documents",
    )
    add(
        "--order",
        choices=["total", "key", "none"],
        help="the order that events have to have: that of the stream, that of each document's events, or "
        "none; default: total for JSON lines, none for the others, which have no order",
    )
    add(
        "--start-at",
        metavar="TIME",
        help="where the stream of the sink began; default: its first event",
    )
    add("--options", metavar="JSON", help="the options of $changeStream that the stream of the sink had")
    add("--pipeline", metavar="JSON", help="the stages that the stream of the sink had")
    add(
        "--relaxed",
        action="store_true",
        help="the sink is relaxed Extended JSON, whose numbers have lost their types",
    )
    add("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    # imported when needed: the commands without Spark's packages start faster
    from tailrace.pipeline.verifying.document_check import check_documents
    from tailrace.pipeline.verifying.event_check import FoundEvent, Order, check_events
    from tailrace.pipeline.verifying.sinks import open_sink
    from tailrace.pipeline.verifying.truth import true_documents, true_events, without_lookups

    place = _source(arguments)
    sink = open_sink(arguments.sink, arguments.sink_ns, arguments.column)
    options = {} if arguments.options is None else document_argument("--options", arguments.options)
    form = _relaxed if arguments.relaxed else _same
    if arguments.kind == _DOCUMENTS:
        name = _collection(arguments)
        report = check_documents(map(form, true_documents(place, name)), lambda: map(form, sink.documents()))
    else:
        scope = _scope(arguments)
        stages = [] if arguments.pipeline is None else stages_argument("--pipeline", arguments.pipeline)
        truth = true_events(place, scope, options, stages, _start(arguments))
        shown = without_lookups if options.get("fullDocument") == "updateLookup" else _same

        def found() -> Iterator[FoundEvent]:
            for event in sink.events():
                yield event if event.raw is None else FoundEvent(event.token, form(shown(event.raw)))

        order = sink.order if arguments.order is None else Order(arguments.order)
        report = check_events(
            lambda first, last: (form(shown(raw)) for raw in truth(first, last)), found, order
        )
    result = report.as_json()
    print_line(json.dumps(result) if arguments.json else _as_text(result, arguments.kind))
    return 0 if report.is_clean else 1


def _source(arguments: argparse.Namespace) -> str:
    given = arguments.source
    if given is not None and not is_uri(given):
        return str(history_place(given))
    uri = connection_string(arguments, given)
    if uri is None:
        raise UsageError("name the source: --source URI, or the folder of a history")
    return uri


def _scope(arguments: argparse.Namespace) -> Scope:
    if arguments.ns is None:
        return Scope.cluster()
    database, collection = namespace_argument("--ns", arguments.ns)
    return Scope.of(database, collection)


def _collection(arguments: argparse.Namespace) -> Namespace:
    database, collection = namespace_argument("--ns", arguments.ns or "")
    if not collection:
        raise UsageError("documents are those of one collection; name it with --ns DB.COLL")
    return Namespace(database, collection)


def _start(arguments: argparse.Namespace) -> int | None:
    if arguments.start_at is None:
        return None
    found = time_argument("--start-at", arguments.start_at)
    if not isinstance(found, Timestamp):
        raise UsageError("--start-at takes an ISO 8601 time or a timestamp in Extended JSON")
    return from_timestamp(found)


def _same(raw: bytes) -> bytes:
    return raw


def _relaxed(raw: bytes) -> bytes:
    """What is left of a document in relaxed Extended JSON."""
    return extjson.loads(relaxed(dumps_canonical(raw)))


def _as_text(result: dict[str, Any], kind: str) -> str:
    lines = [f"{'compared':{_LABEL_WIDTH}}{result['compared']} {kind}"]
    if not result["faults"]:
        return "\n".join([*lines, f"{'result':{_LABEL_WIDTH}}equal"])
    for name, count in result["faults"].items():
        example = result["examples"][name]
        lines.append(f"{name:{_LABEL_WIDTH}}{count}; the smallest: {example['of']}")
        details = {
            "differs at": example["path"],
            "expected": example["expected"],
            "found": example["found"],
            "after": "\n".join(example["before"]) or None,
        }
        lines += [
            f"  {label:{_LABEL_WIDTH - 2}}{text}" for label, text in details.items() if text is not None
        ]
    return "\n".join(lines)
