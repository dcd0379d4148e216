"""Stores with a generated history as their oplog, and what streams on their logs show of it."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tailrace.errors import CommandError
from tailrace.events.cluster_time import to_timestamp
from tailrace.events.stages.lookups import Lookups
from tailrace.events.stages.plan import Plan
from tailrace.log.event_log import EventLog
from tailrace.log.stream import LogStream
from tailrace.mongod.store.clock import WallClock
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.tables import pack_time
from tailrace.mongod.store.write_unit import WriteUnit
from tests.support.choices import any_stream
from tests.support.history import History, timestamp_of
from tests.support.streams import RESUME_OPTIONS, Outcome, Stream

BEFORE_ALL_HISTORIES = 1_600_000_000


@contextmanager
def restored_store(folder: str) -> Iterator[Store]:
    """A store that was initiated long before any history begins."""
    wall = WallClock()
    wall.advance(BEFORE_ALL_HISTORIES - wall.seconds())
    store = Store.open(Path(folder), wall=wall, map_size=1 << 26)
    try:
        yield store
    finally:
        store.close()


def restore(store: Store, entries: Sequence[bytes]) -> None:
    """Put entries into the oplog as they are, one commit for all."""

    def work(unit: WriteUnit) -> None:
        state = unit.state
        for raw in entries:
            ts = timestamp_of(raw)
            state.transaction.put(pack_time(ts), raw, db=state.tables.oplog)
            state.entries.append((ts, raw))
            state.changes += 1

    store.write_now(work)


def any_started_stream(history: History, rng: random.Random) -> Stream:
    """Any stream that says where it starts; on a log, others would start at its end."""
    stream = any_stream(history, rng)
    if stream.spec.keys().isdisjoint(RESUME_OPTIONS):
        first = rng.choice(history.timestamps)
        stream = stream.resumed(startAtOperationTime=to_timestamp(first))
    return stream


def run(stream: Stream, log: EventLog, lookups: Lookups, rng: random.Random) -> Outcome:
    """Take everything a log has for a stream, in bites of any size."""
    plan = Plan.open(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
    shown = LogStream(plan, log, {"": lookups})
    outcome = Outcome()
    try:
        while shown.is_behind and not shown.is_done:
            rows = shown.take(rng.choice((1, 2, 5, 1000)), rng.choice((1, 500, 1 << 24)))
            outcome.events += [row.raw for row in rows]
            outcome.positions.append((len(outcome.events), shown.position))
        shown.take(1, 1)
    except CommandError as error:
        outcome.error = error
    outcome.invalidated = shown.is_done
    return outcome


def seen(outcome: Outcome) -> tuple[list[bytes], bool, int | None]:
    """What somebody who watches sees of it: the events, and how they end."""
    return outcome.events, outcome.invalidated, None if outcome.error is None else outcome.error.code
