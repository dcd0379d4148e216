"""Compaction, retention and vacuum, while others read and write."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.stages.render import render
from tailrace.lake.commit import commit
from tailrace.lake.compaction import COLD_SECONDS, candidates, compact
from tailrace.lake.deferred_entries import is_deferred
from tailrace.lake.files.table_log import delta_table
from tailrace.lake.retention import retain
from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import CANONICAL
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.lake.writer import write_files
from tests.lake.stored import canonical_events, fill, new_table, read_back
from tests.support.whole_events import whole_events
from tests.support.workload import generate

HISTORY = generate(20260700, operations=200)


@pytest.fixture
def events() -> list[ChangeEvent]:
    return canonical_events(HISTORY)


@pytest.fixture
def table(tmp_path: Path, events: list[ChangeEvent]) -> HistoryTable:
    table = new_table(tmp_path)
    fill(table, events, pieces=20)
    return table


def shown(table: HistoryTable) -> list[bytes | None]:
    return [raw for batch in table.read(0) for raw in whole_events(batch)]


def expected(events: list[ChangeEvent]) -> list[bytes | None]:
    return [None if is_deferred(event) else render(event, CANONICAL, 2) for event in events]


def sizes(files: list[int], **how: int) -> list[list[int]]:
    limits = {"target_bytes": 100, "small_bytes": 50, "min_files": 3, **how}
    return [files[group.start : group.stop] for group in candidates(np.array(files), **limits)]


def test_the_files_that_are_merged() -> None:
    assert sizes([1, 1]) == []
    assert sizes([1, 1, 1]) == [[1, 1, 1]]
    assert sizes([1, 1, 60, 1, 1, 1]) == [[1, 1, 1]]  # files around a large one are not merged together
    assert sizes([40, 1, 1, 1]) == [[1, 1, 1]]  # a merged file is merged again with about its own size
    assert sizes([40, 20, 10, 10]) == [[40, 20, 10, 10]]
    assert sizes([45, 45, 45, 45]) == []
    assert sizes([30, 30, 30, 30, 30, 30]) == [[30, 30, 30], [30, 30, 30]]
    assert sizes([60, 1, 1, 1, 60, 60, 1, 1, 1, 1]) == [[1, 1, 1], [1, 1, 1, 1]]
    assert sizes([1, 1, 1, 60, 30, 30, 30], min_bytes=50) == [[30, 30, 30]]
    assert sizes([]) == []


def test_compaction_changes_no_row(table: HistoryTable, events: list[ChangeEvent]) -> None:
    reader = HistoryTable.open(table.place)
    reading = reader.read(0)
    first = next(reading)
    before = (table.rows, table.through, table.begins)
    assert compact(table, min_files=3) == 20
    assert compact(table, min_files=3) == 0
    assert len(table.files) == 1
    assert (table.rows, table.through, table.begins) == before
    assert shown(table) == expected(events)
    # A reader of the old version reads the old files until they are deleted, and then the new one.
    assert vacuum(table, grace_seconds=60) == 0
    assert vacuum(table, grace_seconds=-1) == 20
    rest = [raw for batch in (first, *reading) for raw in whole_events(batch)]
    assert rest == expected(events)
    assert len(read_back(list(HistoryTable.open(table.place).read(0)))) == len(events)


def test_files_with_old_rows_are_merged_into_large_ones(
    table: HistoryTable, events: list[ChangeEvent]
) -> None:
    middle = table.files[9].last_time
    day_after = (middle >> 32) + COLD_SECONDS + 1
    old = table.files[:10].size
    assert compact(table, min_files=30, now=day_after - 10**6) == 0
    assert compact(table, min_files=30, now=day_after) == 0  # they are too small altogether
    assert compact(table, min_files=30, cold_bytes=old, now=day_after) == 10
    assert (len(table.files), table.files[0].last_time) == (11, middle)
    assert shown(table) == expected(events)
    assert shown(HistoryTable.open(table.place)) == expected(events)


def test_a_pipeline_continues_while_files_are_merged(tmp_path: Path, events: list[ChangeEvent]) -> None:
    half = len(events) // 2
    while events[half].entry.ts == events[half - 1].entry.ts:
        half += 1
    pipeline = new_table(tmp_path)
    fill(pipeline, events[:half], pieces=10)
    upkeep = HistoryTable.open(tmp_path)
    fill(pipeline, events[half:], pieces=2)
    assert upkeep.version < pipeline.version
    assert compact(upkeep, min_files=3) == 12
    files = write_files(tmp_path, [], name="none")
    assert commit(pipeline, files, after=pipeline.through, through=pipeline.through + 1)
    assert shown(pipeline) == expected(events)


def test_the_oldest_files_are_removed_by_size(table: HistoryTable, events: list[ChangeEvent]) -> None:
    kept = list(table.files)[5:]
    assert retain(table, max_bytes=table.size) == 0
    assert retain(table, max_bytes=sum(file.size for file in kept)) == 5
    assert list(table.files) == kept
    assert table.begins < kept[0].first_time
    assert table.through == events[-1].entry.ts
    assert shown(table) == expected([event for event in events if event.entry.ts > table.begins])
    reopened = HistoryTable.open(table.place)
    assert (reopened.begins, list(reopened.files)) == (table.begins, kept)


def test_the_oldest_files_are_removed_by_age(table: HistoryTable) -> None:
    limit = table.files[3].last_wall
    assert limit is not None
    assert retain(table) == 0
    assert retain(table, max_age_seconds=100, now=limit / 1000 + 100) == 3
    assert retain(table, max_age_seconds=100, now=limit / 1000 + 1e9) == 17
    assert (table.rows, table.begins <= table.through) == (0, True)


def test_vacuum_does_not_delete_files_that_are_not_committed_yet(
    table: HistoryTable, events: list[ChangeEvent], tmp_path: Path
) -> None:
    assert retain(table, max_bytes=0) == 19  # the newest file stays
    later = [event for event in events if event.entry.ts > table.through]
    assert later == []
    orphan = write_files(tmp_path, [RowBuilder().batch(events[:9])], name="orphan")[0]
    fresh = new_table(tmp_path / "fresh")
    waiting = write_files(fresh.place, [RowBuilder().batch(events)], name="waiting")
    for path in (*tmp_path.glob("*.parquet"), *Path(fresh.place).glob("*.parquet")):
        os.utime(path, (0, 0))
    assert vacuum(fresh) == 0
    assert commit(fresh, waiting, after=0, through=events[-1].entry.ts)
    assert vacuum(fresh) == 0
    # Of the files that were removed the log has the moment, whatever their own times are.
    assert vacuum(table) == 1
    assert not (tmp_path / orphan.path).exists()
    assert vacuum(table, now=time.time() + 3601) == 19


def test_a_missing_file_is_reported(table: HistoryTable) -> None:
    (Path(table.place) / table.files[4].path).unlink()
    with pytest.raises(HistoryError, match="is gone"):
        list(table.read(0))


def test_files_are_deleted_after_their_grace_period(table: HistoryTable) -> None:
    folder = Path(table.place)
    before = time.time()
    writer = HistoryTable.open(folder)
    assert compact(writer, min_files=3) == 20
    after = time.time()
    abandoned = [folder / ".one.tmp", folder / ".two.tmp"]
    others = [folder / "one.tmp", folder / ".one.other"]
    for number, path in enumerate([*abandoned, *others]):
        path.write_bytes(b"")
        os.utime(path, (after, after + number))
    damaged = folder / "damaged.parquet"
    damaged.write_bytes(b"not a file of Parquet")
    os.utime(damaged, (0, 0))
    for file in writer.removals:
        os.utime(folder / file, (0, 0))
    # Of temporary files, those go that are older than a day; of others, those that were removed an hour ago.
    assert vacuum(table, now=before + 3599, grace_seconds=3600) == 0
    assert vacuum(table, now=after + 3601, grace_seconds=3600) == 20
    assert vacuum(table, now=after + 86_399) == 0
    assert vacuum(table, now=after + 86_400.5) == 1
    assert vacuum(table, now=after + 10**6) == 1
    assert [path.exists() for path in [*abandoned, *others, damaged]] == [False, False, True, True, True]


def test_the_grace_period_outlives_a_checkpoint_of_the_log(table: HistoryTable) -> None:
    assert compact(table, min_files=3) == 20
    delta_table(table.store).create_checkpoint()
    removals = HistoryTable.open(table.place).removals
    assert len(removals) == 20
    assert all(abs(time.time() - moment / 1000) < 300 for moment in removals.values())
    assert vacuum(table) == 0
    assert vacuum(table, now=time.time() + 3601) == 20


def test_only_removed_rows_are_changes_for_readers_of_the_table(table: HistoryTable) -> None:
    def last_commit() -> list[dict[str, Any]]:
        text = (Path(table.place) / "_delta_log" / f"{table.version:020d}.json").read_text()
        actions = [json.loads(line) for line in text.splitlines()]
        return [action[name] for action in actions for name in ("add", "remove") if name in action]

    assert compact(table, min_files=3) == 20
    merged = last_commit()
    assert len(merged) == 21
    assert not any(action["dataChange"] for action in merged)


def test_removed_rows_are_changes(table: HistoryTable) -> None:
    assert retain(table, max_bytes=0) == 19
    text = (Path(table.place) / "_delta_log" / f"{table.version:020d}.json").read_text()
    removed = [action["remove"] for line in text.splitlines() if "remove" in (action := json.loads(line))]
    assert len(removed) == 19
    assert all(action["dataChange"] for action in removed)
