"""Archived oplogs to the events of a change stream.

Reads the oplog of a replica set, or those of a cluster's shards, and writes what a change stream with the
given scope, options and pipeline would have delivered, in order. Without a start point in the options the
stream begins with the first entry.
"""

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tailrace.bsonio import documents
from tailrace.bsonio import raw as rawbson
from tailrace.cli.failures import StreamError
from tailrace.cli.json_arguments import (
    document_argument,
    named_argument,
    raw_document_argument,
    stages_argument,
    value_argument,
)
from tailrace.cli.lookup_files import open_lookups
from tailrace.cli.output import EventLines
from tailrace.cli.progress import progress_bar
from tailrace.cli.shard_feed import ShardFeed
from tailrace.errors import CommandError, UsageError
from tailrace.eventlog.local_engine import LocalEngine
from tailrace.model.scope import Scope
from tailrace.stages.plan import Plan


def replay(arguments: Namespace) -> int:
    """Run `tailrace replay`."""
    shards = _shards(arguments)
    plan = _plan(arguments)
    if arguments.explain:
        with EventLines(arguments.out) as lines:
            lines.write([documents.encode(plan.explain())])
        return 0
    if not shards:
        raise UsageError("no oplog was given; name its files, or every shard's with --shard NAME=PATH")
    with ExitStack() as stack:
        feeds = {name: stack.enter_context(ShardFeed(paths)) for name, paths in shards.items()}
        _spare_inputs(arguments.out, feeds)
        entries = {name: feed.find for name, feed in feeds.items()}
        lookups = open_lookups(stack, entries, arguments.pre_images, arguments.documents)
        lines = stack.enter_context(EventLines(arguments.out))
        show_progress = stack.enter_context(
            progress_bar(
                sum(feed.oplog.size for feed in feeds.values()),
                beside_terminal_output=arguments.out == "-" and sys.stdout.isatty(),
            )
        )
        try:
            _pump(LocalEngine(plan, lookups), feeds, lines, show_progress)
        except CommandError as error:
            raise StreamError(error) from None
    return 0


def _shards(arguments: Namespace) -> dict[str, list[str]]:
    """The paths of each shard's oplog; a replica set is one shard without a name."""
    if arguments.paths and arguments.shard:
        raise UsageError("PATH and --shard exclude each other; give every oplog with --shard, or none")
    if arguments.paths:
        return {"": arguments.paths}
    shards: dict[str, list[str]] = {}
    for text in arguments.shard:
        name, path = named_argument("--shard", text, "NAME=PATH")
        shards.setdefault(name, []).append(path)
    return shards


def _plan(arguments: Namespace) -> Plan:
    parameters = {}
    for text in arguments.parameter:
        name, value = named_argument("--parameter", text, "NAME=JSON")
        parameters[name] = value_argument(f"--parameter {name}", value)
    spec = raw_document_argument("--options", arguments.options)
    return Plan.open(
        _scope(arguments.ns, spec),
        spec,
        stages_argument("--pipeline", arguments.pipeline),
        on_router=bool(arguments.shard),
        raw_data=arguments.raw_data,
        parameters=parameters,
        collation=_optional_document("--collation", arguments.collation),
        let=_optional_document("--let", arguments.let),
    )


def _scope(ns: str | None, spec: bytes) -> Scope:
    if ns is None:
        return Scope.cluster()
    db, dot, coll = ns.partition(".")
    for_cluster = rawbson.field(spec, b"allChangesForCluster") == (rawbson.BOOL, b"\x01")
    return Scope.of(db, coll if dot else None, all_changes_for_cluster=for_cluster)


def _optional_document(option: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else document_argument(option, text)


def _spare_inputs(out: str, feeds: Mapping[str, ShardFeed]) -> None:
    if out == "-" or not Path(out).exists():
        return
    for feed in feeds.values():
        if any(file.samefile(out) for file in feed.oplog.files):
            raise UsageError(f"--out {out} would overwrite an oplog that is read; choose another file")


def _pump(
    engine: LocalEngine,
    feeds: Mapping[str, ShardFeed],
    lines: EventLines,
    show_progress: Callable[[int], None],
) -> None:
    """Feed the shard that is furthest behind until all are read or the stream is over.

    No shard runs ahead of the others by more than a batch, so few events wait for their turn. It also means
    that when a damaged file stops one shard, the others have been read up to its last good entry, and all
    events up to there are out.
    """
    waiting = dict(feeds)
    while waiting and not engine.done:
        name = min(waiting, key=lambda shard: waiting[shard].position)
        entries = waiting[name].next_entries(engine.start_time)
        if entries is None:
            del waiting[name]
            engine.finish(name)
        else:
            engine.push(name, entries)
            feeds[name].pushed()
        while events := engine.drain():
            lines.write(events)
        show_progress(sum(feed.oplog.consumed for feed in feeds.values()))
