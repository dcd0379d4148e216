"""Engine and Resume across tiers: history, seam and head show what the local engine and the oplog show.

Histories are generated and built into a table in commits of any size; the oplog is then cut at any place
that the table covers. Over the wire, every stream is read once from the oplog, and resumed behind its events
when the oplog is gone.
"""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.laws.law_seeds import over_seeds
from tests.laws.test_engine import restore, restored_store

from tailrace.errors import CommandError
from tailrace.eventlog.event_log import EventLog
from tailrace.eventlog.head import Head
from tailrace.eventlog.history_log import HistoryLog
from tailrace.eventlog.stream import LogStream
from tailrace.eventlog.tiers import Tiers
from tailrace.model.cluster_time import to_timestamp
from tailrace.stages.lookups import Lookups
from tailrace.stages.plan import Plan
from tailrace.store.store import Store
from tailrace.testing.choices import any_stream
from tailrace.testing.history import History
from tailrace.testing.history_builder import HistoryBuilder
from tailrace.testing.seeds import check_histories
from tailrace.testing.streams import Outcome, Stream


def run(stream: Stream, log: EventLog, lookups: Lookups, rng: random.Random) -> Outcome:
    """Take everything a log has for a stream, in bites of any size."""
    plan = Plan.open(stream.scope, stream.spec, stream.pipeline, raw_data=stream.raw_data)
    shown = LogStream(plan, log, lookups)
    outcome = Outcome()
    try:
        while shown.is_behind and not shown.is_done:
            rows = shown.take(rng.choice((1, 2, 5, 1000)), rng.choice((1, 500, 1 << 24)))
            outcome.events += [row.raw for row in rows]
        shown.take(1, 1)
    except CommandError as error:
        outcome.error = error
    outcome.invalidated = shown.is_done
    return outcome


def compare(history: History) -> None:
    rng = random.Random(history.seed)
    with TemporaryDirectory() as folder:
        store = restored_store(folder)
        try:
            _compare(history, store, Path(folder) / "history", rng)
        finally:
            store.close()


def _compare(history: History, store: Store, path: Path, rng: random.Random) -> None:
    everything = Lookups(history.entry, history.pre_image, history.document)
    restore(store, history.entries)
    builder = HistoryBuilder(store, path, everything)
    for through in sorted(rng.sample(history.timestamps, rng.randrange(3))):
        builder.build(through)
    is_whole = rng.random() < 0.7
    if is_whole:
        builder.build()
    head = Head(store)
    log = HistoryLog(store, path)
    try:
        log.open()
        store.write_now(store.truncate_oplog(rng.choice(history.timestamps)))
        tiers = Tiers(store, head, log)
        for _ in range(3):
            stream = any_stream(history, rng)
            if stream.spec.keys().isdisjoint({"resumeAfter", "startAfter", "startAtOperationTime"}):
                first = rng.choice(history.timestamps)
                stream = stream.resumed(startAtOperationTime=to_timestamp(first))
            expected = stream.run()
            _check(run(stream, tiers, everything, rng), expected)
            if is_whole:
                # Images come from the rows; there is nothing else to look them up in.
                of_rows = Lookups(history.entry, document=history.document)
                _check(run(stream, log, of_rows, rng), expected)
    finally:
        log.release()


def _check(found: Outcome, expected: Outcome) -> None:
    assert found.events == expected.events
    assert found.invalidated == expected.invalidated
    assert _code(found) == _code(expected)


def _code(outcome: Outcome) -> int | None:
    return None if outcome.error is None else outcome.error.code


@over_seeds
def test_tiers_show_what_the_local_engine_shows(seeds: range) -> None:
    check_histories(seeds[14:16], compare)
