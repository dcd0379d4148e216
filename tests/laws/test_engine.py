"""Engine: a stream on the head of a store shows, byte for byte, what the local engine makes of its oplog."""

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.laws.law_seeds import over_seeds

from tailrace.errors import CommandError
from tailrace.eventlog.head import Head
from tailrace.eventlog.stream import LogStream
from tailrace.model.cluster_time import to_timestamp
from tailrace.stages.lookups import Lookups
from tailrace.stages.plan import Plan
from tailrace.store.clock import WallClock
from tailrace.store.store import Store
from tailrace.store.tables import pack_time
from tailrace.store.write_unit import WriteUnit
from tailrace.testing.choices import any_stream
from tailrace.testing.history import History, timestamp_of
from tailrace.testing.seeds import check_histories
from tailrace.testing.streams import Outcome, Stream

BEFORE_ALL_HISTORIES = 1_600_000_000


def restored_store(folder: str) -> Store:
    """A store that was initiated long before any history begins."""
    wall = WallClock()
    wall.advance(BEFORE_ALL_HISTORIES - wall.seconds())
    return Store.open(Path(folder), wall=wall, map_size=1 << 26)


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


def run(stream: Stream, head: Head, rng: random.Random) -> Outcome:
    """Take everything the head has for a stream, in bites of any size."""
    history = stream.history
    plan = Plan.open(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
    lookups = Lookups(history.entry, history.pre_image, history.document)
    shown = LogStream(plan, head, {"": lookups})
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


def compare(history: History) -> None:
    rng = random.Random(history.seed)
    cut = rng.randrange(len(history.entries) + 1)
    with TemporaryDirectory() as folder:
        store = restored_store(folder)
        try:
            restore(store, history.entries[:cut])
            head = Head(store)
            restore(store, history.entries[cut:])
            for _ in range(3):
                stream = any_stream(history, rng)
                if stream.spec.keys().isdisjoint({"resumeAfter", "startAfter", "startAtOperationTime"}):
                    first = rng.choice(history.timestamps)
                    stream = stream.resumed(startAtOperationTime=to_timestamp(first))
                expected = stream.run()
                found = run(stream, head, rng)
                assert found.events == expected.events
                assert found.invalidated == expected.invalidated
                assert _code(found) == _code(expected)
        finally:
            store.close()


def _code(outcome: Outcome) -> int | None:
    return None if outcome.error is None else outcome.error.code


@over_seeds
def test_the_head_shows_what_the_local_engine_shows(seeds: range) -> None:
    check_histories(seeds[:10], compare)


def several_streams(history: History) -> None:
    """However many streams are open, an entry is transformed at most once."""
    rng = random.Random(history.seed)
    with TemporaryDirectory() as folder:
        store = restored_store(folder)
        try:
            head = Head(store)
            restore(store, history.entries)
            for _ in range(4):
                stream = any_stream(history, rng).resumed(
                    startAtOperationTime=to_timestamp(history.timestamps[0])
                )
                run(stream, head, rng)
            assert head.transformed <= len(history.entries)
        finally:
            store.close()


@over_seeds
def test_an_entry_is_transformed_at_most_once(seeds: range) -> None:
    check_histories(seeds[10:14], several_streams)
