"""Runs of verbatim rows show the same bytes as rendered events, and contain every row."""

import random

import pyarrow as pa

from tailrace.events.stages.render import render, shape_of
from tailrace.lake.event_reader import EventReader
from tailrace.lake.row_kinds import RowKind, RowKinds
from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import time_of
from tailrace.lake.verbatim import VerbatimRows, split_runs
from tests.lake.stored import canonical_events
from tests.support.history import History
from tests.support.seeds import check_histories
from tests.support.workload import PLAIN_WRITES


def check_runs(history: History) -> None:
    rng = random.Random(history.seed)
    batch = RowBuilder().batch(canonical_events(history))
    pieces = split_runs(batch, RowKinds())
    assert pa.Table.from_batches([p.rows if isinstance(p, VerbatimRows) else p for p in pieces]).equals(
        pa.Table.from_batches([batch])
    )
    ends = [p.ts if isinstance(p, VerbatimRows) else time_of(p, p.num_rows - 1) for p in pieces]
    assert len(set(ends)) == len(ends)
    reader = EventReader()
    for piece in pieces:
        if not isinstance(piece, VerbatimRows):
            continue
        events = reader.events(piece.rows)
        for expanded in (False, True):
            shape = shape_of(
                expanded=expanded, raw_update=False, commit_timestamp=False, from_migrate=rng.random() < 0.5
            )
            unwanted = rng.choice((None, *piece.kinds))

            def is_wanted(kind: RowKind, unwanted: RowKind | None = unwanted) -> bool:
                return kind is not unwanted

            wanted = [
                event for event in events if unwanted is None or event.operation_type != unwanted.operation
                or (event.kind.database, event.kind.collection, event.kind.uuid)
                != (unwanted.kind.database, unwanted.kind.collection, unwanted.kind.uuid)
            ]  # fmt: skip
            selected = piece.select(is_wanted, expanded=expanded)
            assert selected is not None
            shown, times = selected
            assert shown == [render(event, shape, 2) for event in wanted]
            assert times == [event.entry.ts for event in wanted]


def test_runs_show_the_bytes_of_rendered_events() -> None:
    check_histories(range(20260500, 20260540), check_runs)


def test_plain_writes_are_one_run() -> None:
    def check(history: History) -> None:
        events = [e for e in canonical_events(history) if e.document_key is not None]
        (run,) = split_runs(RowBuilder().batch(events), RowKinds())
        assert isinstance(run, VerbatimRows)
        assert len(run) == len(events)

    check_histories(range(20260540, 20260544), check, PLAIN_WRITES)
