"""Archived oplogs to the events of a change stream.

Reads the oplog of a replica set, or those of a cluster's shards, and writes what a change stream with the
given scope, options and pipeline would have delivered, in order. Without a start point in the options the
stream begins with the first entry.

The events are computed in this process, or on Spark if there are many (`replay_spark.py`). What Spark leaves
over, because something in the input or the stream is wrong, is done here in any case: so both say the same.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain

from tailrace.bson import documents
from tailrace.cli.event_folder import EventFolder, names_folder
from tailrace.cli.failures import StreamError
from tailrace.cli.lookup_files import Dumps
from tailrace.cli.output import EventLines
from tailrace.cli.progress import ShowProgress, progress_bar
from tailrace.cli.replay_arguments import definition_of, shards_of, spare_inputs
from tailrace.cli.replay_spark import Remainder, chooses_spark, replay_on_spark
from tailrace.cli.shard_feed import ShardFeed
from tailrace.errors import BsonError, CommandError, DamagedInputError, UsageError
from tailrace.events.oplog_entry import MALFORMED_ENTRY
from tailrace.log.local_engine import LocalEngine
from tailrace.sources.archives.archive import ArchivedOplog
from tailrace.sources.archives.soundness import damage_in_file


def replay(arguments: Namespace) -> int:
    """Run `tailrace replay`."""
    shards = shards_of(arguments)
    dumps = Dumps.of_arguments(shards or [""], arguments.pre_images, arguments.documents)
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
    on_spark = chooses_spark(arguments.engine, oplogs)
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
    """Compute events in this process."""
    with ExitStack() as stack:
        feeds = {name: stack.enter_context(ShardFeed(paths)) for name, paths in shards.items()}
        lookups = dumps.open(stack, {name: feed.find for name, feed in feeds.items()})
        engine = LocalEngine(rest.plan, lookups, from_oldest=rest.from_oldest)
        try:
            _pump(engine, feeds, lines, show_progress)
        except CommandError as error:
            raise _damage(error, feeds, dumps) or StreamError(error) from None
        except RecursionError:
            bottomless = BsonError("a document is nested too deeply")
            raise _damage(bottomless, feeds, dumps) or StreamError(bottomless) from None


def _damage(error: CommandError, feeds: Mapping[str, ShardFeed], dumps: Dumps) -> DamagedInputError | None:
    """The place in an input that made the stream fail, if it failed because an input is damaged."""
    if not isinstance(error, BsonError) and error.code != MALFORMED_ENTRY:
        return None
    damages = chain((feed.damage() for feed in feeds.values()), map(damage_in_file, dumps.paths))
    return next((damage for damage in damages if damage is not None), None)


def _pump(
    engine: LocalEngine,
    feeds: Mapping[str, ShardFeed],
    lines: EventLines | EventFolder,
    show_progress: ShowProgress,
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
        show_progress(
            sum(feed.oplog.consumed for feed in feeds.values()), sum(feed.entries for feed in feeds.values())
        )
