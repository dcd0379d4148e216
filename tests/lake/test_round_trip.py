"""Events read from the history equal those made of the oplog."""

import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from tailrace.errors import CommandError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.event_token import resume_token
from tailrace.events.stages.oplog_match import EntryFilter
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.render import render, shape_of
from tailrace.lake.deferred_entries import is_deferred
from tests.lake.stored import canonical_events, fill, new_table, read_back, through_memory
from tests.support.choices import any_filter, any_scope, any_spec
from tests.support.history import History
from tests.support.seeds import check_histories

SEEDS = range(20260400, 20260420)
SHAPES = [
    shape_of(expanded=expanded, raw_update=raw, commit_timestamp=commit, from_migrate=migrate)
    for expanded, raw, commit, migrate in product((False, True), repeat=4)
]


def outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except CommandError as error:
        return error.code, error.message


def check_same(found: ChangeEvent, expected: ChangeEvent) -> None:
    assert is_deferred(found) == is_deferred(expected)
    entry, original = found.entry, expected.entry
    assert (entry.ts, entry.wall, entry.index) == (original.ts, original.wall, original.index)
    assert (found.shard, found.pre_image) == (expected.shard, expected.pre_image)
    if is_deferred(expected):
        assert entry.raw == original.raw
        return
    assert outcome(lambda: resume_token(found)) == outcome(lambda: resume_token(expected))
    for shape in SHAPES:
        for version in (1, 2):
            shown = outcome(lambda: render(found, shape, version))  # noqa: B023 - called immediately
            assert shown == outcome(lambda: render(expected, shape, version))  # noqa: B023


def decision(event: ChangeEvent, visible: EntryFilter) -> object:
    """Return what a stream decides about an event, or about a deferred entry."""
    if is_deferred(event):
        return outcome(lambda: visible.sees(event.entry))
    return outcome(lambda: visible.scope.sees(event))


def check_history(history: History) -> None:
    rng = random.Random(history.seed)
    events = canonical_events(history)
    found = through_memory(events)
    assert len(found) == len(events)
    for one, expected in zip(found, events, strict=True):
        check_same(one, expected)
    shown = [render(event, SHAPES[-1], 2) for event in events if not is_deferred(event)]
    for _ in range(6):
        pipeline = [{"$match": any_filter(shown, rng)}] if rng.random() < 0.7 else []
        plan = Plan.open(
            any_scope(history, rng), any_spec(history, rng), pipeline, raw_data=rng.random() < 0.3
        )
        visible, same = plan.entry_filter(), plan.entry_filter()
        for one, expected in zip(found, events, strict=True):
            assert decision(one, visible) == decision(expected, same), (one, plan)


def test_rows_in_memory_give_the_same_events_and_decisions() -> None:
    check_histories(SEEDS, check_history)


def check_files(history: History) -> None:
    events = canonical_events(history, "shard0")
    with TemporaryDirectory() as folder:
        table = new_table(Path(folder))
        fill(table, events, pieces=3)
        found = read_back(list(table.read(0)))
        assert len(found) == len(events)
        for one, expected in zip(found, events, strict=True):
            check_same(one, expected)


def test_rows_in_files_give_the_same_events() -> None:
    check_histories(SEEDS[:4], check_files)
