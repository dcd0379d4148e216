"""Replay archived oplogs for `tailrace replay`, and write the events.

The events are computed in this process (`log/replay.py`), or on Spark if there are many (`on_spark.py`).
What Spark does not finish, because something in the input or the stream is wrong, is computed in this
process: so the errors are the same.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from tailrace.bson import documents
from tailrace.cli.failures import StreamError
from tailrace.cli.output import EventFolder, EventLines, names_folder
from tailrace.cli.replaying.arguments import definition_of, dumps_of, shards_of, spare_inputs
from tailrace.cli.replaying.on_spark import Remainder, chooses_spark, replay_on_spark
from tailrace.cli.replaying.progress import ShowProgress, progress_bar
from tailrace.errors import BsonError, CommandError, UsageError
from tailrace.log.local_engine import LocalEngine
from tailrace.log.replay import damage_of, replayed
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.dumps import Dumps
from tailrace.sources.archives.shard_feed import ShardFeed


def replay(arguments: Namespace) -> int:
    shards = shards_of(arguments)
    dumps = dumps_of(arguments, shards or [""])
    definition = definition_of(arguments)
    plan = definition.open()
    spare_inputs(arguments.out, [*(path for paths in shards.values() for path in paths), *dumps.paths])
    if arguments.explain:
        with EventLines(arguments.out) as shown:
            shown.write([documents.encode(plan.explain())])
        return 0
    if not shards:
        raise UsageError("no oplog was given; name its files, or every shard's with --shard NAME=PATH")
    oplogs = {name: ArchivedOplog(paths) for name, paths in shards.items()}
    on_spark = chooses_spark(arguments.engine, oplogs, arguments.master)
    with ExitStack() as stack:
        rest: Remainder | None = Remainder(plan, from_oldest=True)
        dumps.check()
        lines = stack.enter_context(_output(arguments.out))
        show_progress = stack.enter_context(
            progress_bar(
                sum(oplog.size for oplog in oplogs.values()),
                beside_terminal_output=arguments.out == "-" and sys.stdout.isatty(),
            )
        )
        if on_spark:
            rest = replay_on_spark(arguments.master, definition, plan, shards, dumps, lines, show_progress)
        if rest is not None:
            _replay_here(rest, shards, dumps, lines, show_progress)
    return 0


@contextmanager
def _output(out: str) -> Iterator[EventLines | EventFolder]:
    with EventFolder(out) if names_folder(out) else EventLines(out) as lines:
        yield lines


def _replay_here(
    rest: Remainder,
    shards: Mapping[str, list[str]],
    dumps: Dumps,
    lines: EventLines | EventFolder,
    show_progress: ShowProgress,
) -> None:
    with ExitStack() as stack:
        feeds = {name: stack.enter_context(ShardFeed(paths)) for name, paths in shards.items()}
        lookups = dumps.open(stack, {name: feed.find for name, feed in feeds.items()})
        engine = LocalEngine(rest.plan, lookups, from_oldest=rest.from_oldest)
        try:
            for events in replayed(engine, feeds):
                if events:
                    lines.write(events)
                show_progress(
                    sum(feed.oplog.consumed for feed in feeds.values()),
                    sum(feed.entries for feed in feeds.values()),
                )
        except CommandError as error:
            raise damage_of(error, feeds, dumps) or StreamError(error) from None
        except RecursionError:
            bottomless = BsonError("a document is nested too deeply")
            raise damage_of(bottomless, feeds, dumps) or StreamError(bottomless) from None
