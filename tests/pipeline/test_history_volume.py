"""Queries on a history are planned from its log and footers: counts are exact, and no row is read."""

import pickle
import random
from itertools import pairwise
from pathlib import Path

import pytest

from tailrace.errors import HistoryError
from tailrace.events.change_event import ChangeEvent
from tailrace.lake.commit import commit
from tailrace.lake.compaction import compact
from tailrace.lake.data_file import AddedFile
from tailrace.lake.log_writer import make_checkpoint, write_commit
from tailrace.lake.positions import THROUGH, position_transactions
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.stream_batches import StreamBatches, StreamPiece
from tailrace.pipeline.streams.history_events import HistoryEvents
from tailrace.pipeline.streams.history_volume import HistoryVolume
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.workload import generate

SEED = 20261119
FILES, ROWS = 1000, 1_000_000


@pytest.fixture(scope="module")
def events() -> list[ChangeEvent]:
    return canonical_events(generate(SEED, operations=400))


@pytest.fixture
def table(tmp_path: Path, events: list[ChangeEvent]) -> HistoryTable:
    table = new_table(tmp_path / "history")
    fill(table, events, pieces=7)
    return table


def limit_of(times: list[int], after: int, through: int, most: int) -> int:
    """What `limit` returns, by counting."""
    found = [time for time in times if after < time <= through]
    if len(found) <= most:
        return through
    earlier = [time for time in found if time < found[most]]
    return earlier[-1] if earlier else found[0]


def test_the_rows_of_a_batch_are_counted_exactly(table: HistoryTable, events: list[ChangeEvent]) -> None:
    times = [event.entry.ts for event in events]
    chooser = random.Random(SEED)
    volume = HistoryVolume(table)
    for _ in range(150):
        after, through = sorted(chooser.choice(times) + chooser.randrange(-1, 2) for _ in range(2))
        most = chooser.choice((1, 2, 10, 50, 51, 100, 10**9))
        found = volume.limit(after, through, most)
        assert found == limit_of(times, after, through, most), f"seed {SEED}: {after}, {through}, {most}"
    assert volume.limit(times[-1], times[-1] + 5, 1) == times[-1] + 5


def test_pieces_have_about_the_same_number_of_rows(table: HistoryTable, events: list[ChangeEvent]) -> None:
    times = [event.entry.ts for event in events]
    volume = HistoryVolume(table)
    for parts in (2, 3, 5):
        cuts = volume.cuts(0, times[-1], parts)
        assert len(cuts) == parts - 1
        pieces = pairwise([0, *cuts, times[-1]])
        rows = [sum(after < time <= through for time in times) for after, through in pieces]
        assert sum(rows) == len(times)
        assert max(rows) < 2 * len(times) / parts, rows
    assert len(volume.cuts(times[20], times[40], 50)) > 3
    assert volume.cuts(times[-1], times[-1] + 9, 5) == []


def test_files_that_were_merged_while_a_query_was_planned(
    table: HistoryTable, events: list[ChangeEvent]
) -> None:
    planned = HistoryTable.open(table.place)
    source = HistoryEvents(table.place)
    given = pickle.loads(pickle.dumps(source.given(0, events[-1].entry.ts)))
    assert compact(table, min_files=2) == 7
    assert vacuum(table, grace_seconds=-1) == 7
    assert HistoryVolume(planned).cuts(0, events[-1].entry.ts, 3)
    assert HistoryVolume(planned).limit(0, events[-1].entry.ts, 10) <= events[10].entry.ts
    assert list(given) != list(table.files) == list(planned.files)
    (Path(table.place) / table.files[0].path).unlink()
    with pytest.raises(HistoryError, match="is gone"):
        HistoryVolume(planned).limit(0, events[-1].entry.ts, 10)


def synthetic(folder: Path, commands: int | None) -> HistoryTable:
    """A history whose log has a thousand million rows, and that has no files."""
    table = new_table(folder)
    files = [
        AddedFile(
            path=f"{number:08x}.parquet",
            size=128 << 20,
            rows=ROWS,
            first_token=f"82{number:08X}00000001",
            last_token=f"82{number:08X}00FFFFFF",
            first_wall=number * 1000,
            last_wall=number * 1000 + 999,
            walls_missing=0,
            modified=0,
            commands=commands,
        )
        for number in range(1, FILES + 1)
    ]
    end = (FILES + 1) << 32
    assert write_commit(table, "WRITE", added=files, transactions=position_transactions(THROUGH, end))
    make_checkpoint(table)
    return table


def test_a_query_on_a_billion_rows_is_planned_without_reading_a_file(tmp_path: Path) -> None:
    table = synthetic(tmp_path, commands=0)
    stream = StreamBatches(
        read_options({"history": str(tmp_path), "database": "shop", "collection": "orders"})
    )
    pieces = [piece for piece in stream.whole() if isinstance(piece, StreamPiece)]
    assert len(pieces) == FILES
    assert [len(piece.given) for piece in pieces] == [1] * FILES
    assert [file for piece in pieces for file in piece.given] == list(table.files)
    intervals = [piece.interval for piece in pieces]
    assert all(one.through == other.after for one, other in pairwise(intervals))
    assert len(pickle.dumps(stream)) < 10_000  # the table stays with the driver
    start = stream.first_offset()
    assert stream.next_offset(start, max_rows=None)["clusterTime"] == {"t": FILES + 1, "i": 0}
    assert len(stream.between(start, stream.newest_offset())) == FILES


def test_only_files_that_may_end_a_stream_are_read(tmp_path: Path) -> None:
    for folder, commands in ((tmp_path / "some", 1), (tmp_path / "unknown", None)):
        synthetic(folder, commands)
        stream = StreamBatches(read_options({"history": str(folder), "database": "shop"}))
        with pytest.raises(HistoryError, match=r"00000001.parquet"):
            stream.whole()


def test_files_have_the_number_of_their_drops_and_renames(
    table: HistoryTable, events: list[ChangeEvent]
) -> None:
    ending = [
        event.entry.ts for event in events if event.operation_type in ("drop", "rename", "dropDatabase")
    ]
    assert ending
    for view in (table, HistoryTable.open(table.place)):
        found = [
            (sum(file.first_time <= time <= file.last_time for time in ending), file.commands)
            for file in view.files
        ]
        assert [counted for counted, _ in found] == [stored for _, stored in found]
    make_checkpoint(table)
    assert list(HistoryTable.open(table.place).files) == list(table.files)
    assert commit(table, [], after=table.through, through=table.through + 1)
