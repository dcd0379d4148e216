"""Archived oplogs to the events of a change stream.

Reads the oplog of a replica set, or those of a cluster's shards, and writes what a change stream with the
given scope, options and pipeline would have delivered, in order. Without a start point in the options the
stream begins with the first entry.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import chain
from typing import Any, Final

from tailrace.bsonio import documents
from tailrace.bsonio import raw as rawbson
from tailrace.cli.failures import StreamError
from tailrace.cli.json_arguments import (
    document_argument,
    named_argument,
    raw_document_argument,
    stages_argument,
    utf8_argument,
)
from tailrace.cli.lookup_files import Dumps
from tailrace.cli.output import EventLines
from tailrace.cli.progress import progress_bar
from tailrace.cli.shard_feed import ShardFeed
from tailrace.errors import BsonError, CommandError, DamagedInputError, UsageError
from tailrace.eventlog.local_engine import LocalEngine
from tailrace.model.oplog_entry import MALFORMED_ENTRY
from tailrace.model.scope import Scope
from tailrace.stages.plan import EMIT_FROM_MIGRATE, END_OF_TRANSACTION_FLAG, Plan
from tailrace.store.soundness import damage_in_file

PARAMETERS: Final = (END_OF_TRANSACTION_FLAG, EMIT_FROM_MIGRATE)
"""what --parameter may set"""


def replay(arguments: Namespace) -> int:
    """Run `tailrace replay`."""
    shards = _shards(arguments)
    dumps = Dumps.of_arguments(shards or [""], arguments.pre_images, arguments.documents)
    plan = _plan(arguments)
    _spare_inputs(arguments.out, [*(path for paths in shards.values() for path in paths), *dumps.paths])
    if arguments.explain:
        with EventLines(arguments.out) as lines:
            lines.write([documents.encode(plan.explain())])
        return 0
    if not shards:
        raise UsageError("no oplog was given; name its files, or every shard's with --shard NAME=PATH")
    with ExitStack() as stack:
        feeds = {name: stack.enter_context(ShardFeed(paths)) for name, paths in shards.items()}
        lookups = dumps.open(stack, {name: feed.find for name, feed in feeds.items()})
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
            raise _damage(error, feeds, dumps) or StreamError(error) from None
        except RecursionError:
            bottomless = BsonError("a document is nested too deeply")
            raise _damage(bottomless, feeds, dumps) or StreamError(bottomless) from None
    return 0


def _shards(arguments: Namespace) -> dict[str, list[str]]:
    """The paths of each shard's oplog; a replica set is one shard without a name."""
    if arguments.paths and arguments.shard:
        raise UsageError("PATH and --shard exclude each other; give every oplog with --shard, or none")
    if arguments.paths:
        return {"": [_input(path) for path in arguments.paths]}
    shards: dict[str, list[str]] = {}
    for text in arguments.shard:
        name, path = named_argument("--shard", text, "NAME=PATH")
        shards.setdefault(name, []).append(_input(path))
    return shards


def _input(path: str) -> str:
    return "/dev/stdin" if path == "-" else path


def _plan(arguments: Namespace) -> Plan:
    spec = raw_document_argument("--options", arguments.options)
    try:
        return Plan.open(
            _scope(arguments.ns, spec),
            spec,
            stages_argument("--pipeline", arguments.pipeline),
            on_router=bool(arguments.shard),
            raw_data=arguments.raw_data,
            parameters=dict(map(_parameter, arguments.parameter)),
            collation=_optional_document("--collation", arguments.collation),
            let=_optional_document("--let", arguments.let),
        )
    except RecursionError:
        raise UsageError("the options or the pipeline are nested too deeply") from None


def _parameter(text: str) -> tuple[str, bool]:
    name, value = named_argument("--parameter", text, "NAME=true or NAME=false")
    if name not in PARAMETERS:
        raise UsageError(f"--parameter: none is called {name}; there are {' and '.join(PARAMETERS)}")
    if value not in ("true", "false"):
        raise UsageError(f"--parameter {name} takes true or false, not {value!r}")
    return name, value == "true"


def _scope(ns: str | None, spec: bytes) -> Scope:
    if ns is None:
        return Scope.cluster()
    db, dot, coll = utf8_argument("--ns", ns).partition(".")
    for_cluster = rawbson.field(spec, b"allChangesForCluster") == (rawbson.BOOL, b"\x01")
    return Scope.of(db, coll if dot else None, all_changes_for_cluster=for_cluster)


def _optional_document(option: str, text: str | None) -> dict[str, Any] | None:
    return None if text is None else document_argument(option, text)


def _spare_inputs(out: str, inputs: Iterable[str]) -> None:
    """Refuse an output that is one of the inputs, or one of the files in a folder that is."""
    if out == "-" or not os.path.isfile(out):
        return
    for path in inputs:
        is_folder = os.path.isdir(path) and os.access(path, os.R_OK)
        files = [os.path.join(path, name) for name in os.listdir(path)] if is_folder else [path]
        if any(os.path.exists(file) and os.path.samefile(file, out) for file in files):
            raise UsageError(f"--out {out} would overwrite a file that is read; choose another one")


def _damage(error: CommandError, feeds: Mapping[str, ShardFeed], dumps: Dumps) -> DamagedInputError | None:
    """The place in an input that made the stream fail, if it failed because an input is damaged."""
    if not isinstance(error, BsonError) and error.code != MALFORMED_ENTRY:
        return None
    damages = chain((feed.damage() for feed in feeds.values()), map(damage_in_file, dumps.paths))
    return next((damage for damage in damages if damage is not None), None)


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
        while events := engine.drain():
            lines.write(events)
        feeds[name].release()
        show_progress(sum(feed.oplog.consumed for feed in feeds.values()))
