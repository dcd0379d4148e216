"""Stores with a generated history as their oplog, and streams that read their logs."""

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
    """Open a store whose oplog begins before every generated history."""
    wall = WallClock()
    wall.advance(BEFORE_ALL_HISTORIES - wall.seconds())
    store = Store.open(Path(folder), wall=wall, map_size=1 << 26)
    try:
        yield store
    finally:
        store.close()


def restore(store: Store, entries: Sequence[bytes]) -> None:
    """Write entries into the oplog unchanged, in one commit."""

    def work(unit: WriteUnit) -> None:
        state = unit.state
        for raw in entries:
            ts = timestamp_of(raw)
            state.transaction.put(pack_time(ts), raw, db=state.tables.oplog)
            state.entries.append((ts, raw))
            state.changes += 1

    store.write_now(work)


def any_started_stream(history: History, rng: random.Random) -> Stream:
    """Return a random stream with a start; on a log, a stream without one would start at the end."""
    stream = any_stream(history, rng)
    if stream.spec.keys().isdisjoint(RESUME_OPTIONS):
        first = rng.choice(history.timestamps)
        stream = stream.resumed(startAtOperationTime=to_timestamp(first))
    return stream


def run(stream: Stream, log: EventLog, lookups: Lookups, rng: random.Random) -> Outcome:
    """Read a stream to the end of a log, in batches of random size."""
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


def observed(outcome: Outcome) -> tuple[list[bytes], bool, int | None]:
    """Return what a client can observe: events, whether they end with invalidate, the error's code."""
    return outcome.events, outcome.invalidated, None if outcome.error is None else outcome.error.code
