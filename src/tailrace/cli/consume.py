"""`tailrace consume`: a worker of a consumer group, and what can be done with a group.

A worker prints the events of its part of the stream, or runs a command for each. An event is acknowledged
when it is printed, or when its command has succeeded. SIGTERM and Ctrl-C end it after the event that it has;
the next worker goes on there.
"""

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from bson import Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo.errors import PyMongoError

from tailrace.bson.documents import encode
from tailrace.cli.consuming import arguments as consume_arguments
from tailrace.cli.consuming.arguments import group_and_namespace, job_of, positions_argument
from tailrace.cli.consuming.report import as_json, as_text, letter_line
from tailrace.cli.failures import StreamError
from tailrace.cli.json_arguments import is_token, stages_argument, time_argument, token_argument
from tailrace.cli.output import print_line
from tailrace.cli.watching.deployment import (
    OUTAGE_SECONDS,
    RawClient,
    address_argument,
    raw_client,
    stream_failure,
    watched_target,
)
from tailrace.cli.watching.outputs import CommandFailedError, Output
from tailrace.cli.watching.printing import printed_output
from tailrace.cli.watching.stream_arguments import stream_options
from tailrace.client.groups.blocking import Consumer, consume
from tailrace.client.groups.control import ConsumerGroup
from tailrace.client.groups.delivery import Delivery
from tailrace.client.groups.handling import Retries
from tailrace.errors import UsageError
from tailrace.sources.deployments.connection_string import ConnectionString
from tailrace.sources.deployments.driver_errors import hosts_of

HELP: Final = "share a change stream with other workers, in a consumer group that keeps its positions"

add_arguments = consume_arguments.add_arguments


def run(arguments: argparse.Namespace) -> int:
    job = job_of(arguments)
    uri = address_argument(arguments)
    name, namespace = group_and_namespace(arguments.words, job)
    with raw_client(uri) as client:
        try:
            if job is None:
                assert name is not None
                return _consume(arguments, client, name, namespace)
            return _do(arguments, client, uri, name, job)
        except PyMongoError as error:
            raise StreamError(stream_failure(error, uri, namespace)) from None


def _consume(arguments: argparse.Namespace, client: RawClient, group: str, namespace: str | None) -> int:
    if arguments.max is not None and arguments.max < 1:
        raise UsageError("--max is a number of events, 1 or more")
    pipeline = stages_argument("--pipeline", arguments.pipeline)
    output = printed_output(arguments)
    options: dict[str, Any] = {
        name: value for name, value in stream_options(arguments).items() if value is not None
    }
    consumer = consume(
        watched_target(client, namespace),
        group,
        pipeline,
        positions=positions_argument(arguments),
        slots=arguments.slots,
        snapshot=arguments.snapshot,
        lease_seconds=arguments.lease_seconds,
        max_outage=OUTAGE_SECONDS,
        merge_fragments=arguments.merge_fragments,
        **options,
    )
    with consumer, _ended_by_signals(consumer):
        if sys.stderr is not None and sys.stderr.isatty():
            what = namespace or "everything"
            print(f"consuming {what} as {group}; Ctrl-C ends it", file=sys.stderr, flush=True)
        consumer.run(_handler(output), max_events=arguments.max, retries=Retries(arguments.max_tries))
    return 0


def _handler(output: Output) -> Any:
    def handle(delivery: Delivery) -> None:
        event = delivery.event
        output.take(event if isinstance(event, RawBSONDocument) else RawBSONDocument(encode(dict(event))))
        output.secure()

    return handle


@contextmanager
def _ended_by_signals(consumer: Consumer) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the worker after the event that it has; a second Ctrl-C ends it at once."""

    def stop(*_: object) -> None:
        consumer.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _do(
    arguments: argparse.Namespace, client: RawClient, uri: ConnectionString, name: str | None, job: str
) -> int:
    positions = positions_argument(arguments)
    if name is None:
        _show_all(arguments, client, uri, positions)
        return 0
    with ConsumerGroup(client, name, positions=positions) as group:
        match job:
            case "status":
                print_line((as_json if arguments.json else as_text)(group.status()))
            case "pause":
                group.pause()
            case "resume":
                group.resume()
            case "delete":
                group.delete()
            case "seek":
                _seek(group, arguments.seek)
            case "dead_letters":
                for letter in group.dead_letters():
                    print_line(letter_line(letter))
            case "replay":
                _replay(group, printed_output(arguments))
    return 0


def _show_all(
    arguments: argparse.Namespace, client: RawClient, uri: ConnectionString, positions: str | None
) -> None:
    names = ConsumerGroup.names(client, positions=positions)
    texts = []
    for name in names:
        with ConsumerGroup(client, name, positions=positions) as group:
            texts.append((as_json if arguments.json else as_text)(group.status()))
    if arguments.json:
        for text in texts:
            print_line(text)
    else:
        place = hosts_of(uri) if positions is None else arguments.positions
        print_line("\n\n".join(texts) or f"there are no groups in {place}")


def _seek(group: ConsumerGroup, place: str) -> None:
    if is_token(place):
        group.seek(token=token_argument("--seek", place))
        return
    time = time_argument("--seek", place)
    if not isinstance(time, Timestamp):
        raise UsageError("--seek takes a time, such as 2026-11-17T20:00:00Z, or a resume token")
    group.seek(time=time)


def _replay(group: ConsumerGroup, output: Output) -> None:
    group.replay(_handler(output))
    left = len(group.dead_letters())
    if left:
        raise CommandFailedError(f"{left:,} dead letters could not be handled, and are kept")
