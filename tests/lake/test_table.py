"""The table: intervals are committed exactly once, files are in order, readers follow writers."""

import json
import os
import pickle
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.lake import schema
from tailrace.lake.commit import commit
from tailrace.lake.files.table_log import IDENTITY
from tailrace.lake.log_writer import CHECKPOINT_COMMITS, tidy_log, write_commit
from tailrace.lake.positions import THROUGH, position_transactions
from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import SCHEMA
from tailrace.lake.table import HistoryTable
from tailrace.lake.writer import write_files
from tests.lake.stored import canonical_events, fill, new_table, read_back
from tests.support.workload import generate

HISTORY = generate(20260600, operations=150)


@pytest.fixture
def events() -> list[ChangeEvent]:
    return canonical_events(HISTORY)


def times_of(
    table: HistoryTable, after: int = 0, through: int | None = None, batch_rows: int = 4096
) -> list[int]:
    times: list[int] = []
    for batch in table.read(after, through, batch_rows=batch_rows):
        found = schema.times_of(batch).tolist()
        assert not times or times[-1] < found[0]
        times += found
    return times


def test_a_new_history_is_empty_and_has_the_identity_of_its_source(tmp_path: Path) -> None:
    assert not HistoryTable.exists(tmp_path / "h")
    table = HistoryTable.create(tmp_path / "h", identity="set-1", begins=7 << 32)
    assert HistoryTable.exists(tmp_path / "h")
    assert (table.identity, table.begins, table.through, list(table.files)) == ("set-1", 7 << 32, 7 << 32, [])
    assert list(table.read(0)) == []
    table.check_identity("set-1")
    with pytest.raises(HistoryError, match="belongs to set-1, not to set-2"):
        table.check_identity("set-2")
    with pytest.raises(HistoryError, match="no history can be created"):
        HistoryTable.create(tmp_path / "h", identity="set-1", begins=0)


def test_a_table_of_another_format_is_refused(tmp_path: Path) -> None:
    for number, found in (("1", None), (str(schema.FORMAT + 1), str(schema.FORMAT + 1))):
        folder = tmp_path / number
        new_table(folder)
        path = folder / "_delta_log" / f"{0:020d}.json"
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "metaData" in line:
                configuration = line["metaData"]["configuration"]
                assert configuration.pop("tailrace.format") == str(schema.FORMAT)
                if found is not None:
                    configuration["tailrace.format"] = found
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(HistoryError, match=f"has format {number}.* build the history again with"):
            HistoryTable.open(folder)


@pytest.mark.parametrize("missing", ["identity", "position"])
def test_a_table_with_only_some_marks_of_a_history_is_refused(tmp_path: Path, missing: str) -> None:
    new_table(tmp_path)
    path = tmp_path / "_delta_log" / f"{0:020d}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if missing == "position":
        positions = [line for line in lines if "txn" in line]
        lines.remove(positions[0])
        assert len(positions) > 1
    for line in lines:
        if missing == "identity" and "metaData" in line:
            del line["metaData"]["configuration"][IDENTITY]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(HistoryError, match="is no history of Tailrace"):
        HistoryTable.open(tmp_path)


def test_opening_a_folder_without_a_history_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="there is no history in"):
        HistoryTable.open(tmp_path)


def test_an_interval_is_committed_once(tmp_path: Path, events: list[ChangeEvent]) -> None:
    table = new_table(tmp_path)
    through = events[-1].entry.ts
    files = write_files(tmp_path, [RowBuilder().batch(events)], name="one")
    assert pickle.loads(pickle.dumps(files)) == files
    assert commit(table, files, after=0, through=through)
    assert not commit(table, files, after=0, through=through)
    assert commit(HistoryTable.open(tmp_path), [], after=through, through=through + 5)
    other = HistoryTable.open(tmp_path)
    assert table.refresh()
    assert not table.refresh()
    assert (table.through, table.rows) == (other.through, other.rows) == (through + 5, len(events))
    assert list(table.files) == list(other.files)
    with pytest.raises(HistoryError, match="the checkpoint and the history disagree"):
        commit(table, [], after=through, through=through + 9)


def test_files_outside_their_interval_are_refused(tmp_path: Path, events: list[ChangeEvent]) -> None:
    table = new_table(tmp_path)
    files = write_files(tmp_path, [RowBuilder().batch(events)], name="one")
    with pytest.raises(HistoryError, match="is outside of its interval"):
        commit(table, files, after=0, through=events[0].entry.ts)
    (tmp_path / files[0].path).unlink()
    with pytest.raises(HistoryError, match="was deleted before it was committed"):
        commit(table, files, after=0, through=events[-1].entry.ts)
    assert table.through == 0


def test_reading_an_interval_gives_its_rows(tmp_path: Path, events: list[ChangeEvent]) -> None:
    table = new_table(tmp_path)
    fill(table, events, pieces=5)
    expected = [event.entry.ts for event in events]
    assert len(table.files) == 5
    assert times_of(table) == expected
    for after in (expected[0] - 1, expected[0], expected[40], expected[-2]):
        for through in (expected[41], expected[-1], expected[-1] + 9):
            wanted = [ts for ts in expected if after < ts <= through]
            assert times_of(table, after, through) == wanted
            assert times_of(table, after, through, batch_rows=3) == wanted


def test_files_are_split_by_size_but_never_within_a_cluster_time(
    tmp_path: Path, events: list[ChangeEvent]
) -> None:
    builder = RowBuilder()
    batches = [builder.batch(events[start : start + 7]) for start in range(0, len(events), 7)]
    files = write_files(tmp_path, batches, name="many", target_bytes=1, row_group_rows=10)
    assert len(files) > 5
    assert all(one.last_time < other.first_time for one, other in pairwise(files))
    table = new_table(tmp_path)
    assert commit(table, files, after=0, through=events[-1].entry.ts)
    assert [event.entry.ts for event in read_back(list(table.read(0)))] == [e.entry.ts for e in events]


def test_a_reader_finds_commits_after_the_log_was_cleaned_up(
    tmp_path: Path, events: list[ChangeEvent]
) -> None:
    table = new_table(tmp_path)
    sleeper, watcher = HistoryTable.open(tmp_path), HistoryTable.open(tmp_path)
    assert not tidy_log(table)
    first = events[0].entry.ts - 3 * CHECKPOINT_COMMITS
    for number in range(2 * CHECKPOINT_COMMITS):
        assert commit(table, [], after=table.through, through=first + number)
        if number == CHECKPOINT_COMMITS:
            assert tidy_log(table)
            for path in (tmp_path / "_delta_log").iterdir():
                os.utime(path, (0, 0))  # as if they were old
    assert watcher.refresh()
    fill(table, events, pieces=3)
    assert watcher.refresh()
    assert (watcher.version, list(watcher.files)) == (table.version, list(table.files))
    assert tidy_log(table)
    assert not tidy_log(table)
    assert not (tmp_path / "_delta_log" / f"{1:020d}.json").exists()
    assert sleeper.refresh()
    for reader in (sleeper, HistoryTable.open(tmp_path)):
        assert (reader.version, list(reader.files)) == (table.version, list(table.files))
        assert (reader.through, reader.begins) == (table.through, table.begins)
    assert times_of(sleeper) == [event.entry.ts for event in events]


def test_of_two_writers_of_an_interval_only_one_commits_it(tmp_path: Path, events: list[ChangeEvent]) -> None:
    new_table(tmp_path)
    one, other = HistoryTable.open(tmp_path), HistoryTable.open(tmp_path)
    through = events[-1].entry.ts
    files = write_files(tmp_path, [RowBuilder().batch(events)], name="one")
    assert write_commit(one, "WRITE", added=files, transactions=position_transactions(THROUGH, through))
    # The other one has not refreshed since: its commit would have the same number.
    assert not write_commit(other, "WRITE", added=files, transactions=position_transactions(THROUGH, through))
    assert (other.version, other.rows) == (one.version, len(events))
    assert not commit(other, files, after=0, through=through)


def test_a_table_that_another_program_has_rewritten_is_refused(
    tmp_path: Path, events: list[ChangeEvent]
) -> None:
    table = new_table(tmp_path)
    fill(table, events, pieces=4)
    reader = HistoryTable.open(tmp_path)
    first, last = table.files[0], table.files[-1]
    rows = [batch for batch in table.read(0, columns=SCHEMA.names) if batch.num_rows]
    shuffled = pa.Table.from_batches([rows[0], rows[-1]]).select(SCHEMA.names).cast(SCHEMA).to_batches()
    merged = write_files(tmp_path, shuffled, name="elsewhere")
    with pytest.raises(HistoryError, match="was changed by another program"):
        write_commit(table, "OPTIMIZE", added=merged, removed=[first, last], changes_data=False)
    for read in (reader.refresh, reader.refresh, lambda: HistoryTable.open(tmp_path)):
        with pytest.raises(HistoryError, match="was changed by another program"):
            read()
