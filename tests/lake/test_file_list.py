"""The list of files in columns: the same as a list of objects, after any changes."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tailrace.errors import HistoryError
from tailrace.lake.commit import change_files
from tailrace.lake.data_file import AddedFile
from tailrace.lake.files.file_columns import columns_of, files_of
from tailrace.lake.files.file_list import FileList, FileOrderError
from tailrace.lake.files.table_log import delta_table
from tailrace.lake.log_writer import make_checkpoint, write_commit
from tailrace.lake.positions import THROUGH, position_transactions
from tailrace.lake.table import HistoryTable
from tests.lake.stored import new_table

SEED = 20261118


def file_at(second: int, chooser: random.Random, seconds: int = 1) -> AddedFile:
    """A file of some seconds; there is none of that name."""
    tokens = [
        f"82{time:08X}{increment:08X}{chooser.randbytes(chooser.randrange(40)).hex().upper()}"
        for time, increment in ((second, chooser.randrange(99)), (second + seconds - 1, 100))
    ]
    walls = (None, None) if chooser.random() < 0.2 else (second * 1000 - 5, (second + seconds) * 1000 + 7)
    return AddedFile(
        path=f"{second:08x}-{chooser.randbytes(4).hex()}.parquet",
        size=chooser.randrange(1, 10**9),
        rows=chooser.randrange(1, 10**6),
        first_token=tokens[0],
        last_token=tokens[1],
        first_wall=walls[0],
        last_wall=walls[1],
        walls_missing=chooser.randrange(3),
        modified=second * 1000,
    )


def files_at(seconds: range, seed: int = SEED) -> list[AddedFile]:
    chooser = random.Random(seed)
    return [file_at(second, chooser) for second in seconds]


def with_files(folder: Path, files: list[AddedFile]) -> HistoryTable:
    table = new_table(folder)
    end = position_transactions(THROUGH, 1 << 63)
    assert write_commit(table, "WRITE", added=files, transactions=end)
    return table


def test_any_changes_give_what_a_list_of_objects_has() -> None:
    chooser = random.Random(SEED)
    expected: list[AddedFile] = []
    found = FileList()
    newest = 1000
    for _ in range(100):
        removed: list[AddedFile] = []
        added: list[AddedFile] = []
        kind = chooser.random()
        if kind < 0.7 or len(expected) < 10:
            added = [file_at(newest + number, chooser) for number in range(chooser.randrange(1, 20))]
            newest += len(added) + chooser.randrange(3)
        else:  # merge some neighbours, or remove the oldest
            start = chooser.randrange(len(expected) - 5) if kind < 0.9 else 0
            removed = expected[start : start + chooser.randrange(1, 40)]
            if kind < 0.9:
                first, last = removed[0].first_time >> 32, removed[-1].last_time >> 32
                added = [file_at(first, chooser, last - first + 1)]
        expected = [file for file in expected if file not in removed] + added
        expected.sort(key=lambda file: file.first_token)
        before = list(found)
        changed = found.changed([file.path for file in removed], added)
        assert list(found) == before, f"seed {SEED}"
        found = changed
        assert list(found) == expected, f"seed {SEED}"
    assert (len(found), found.size) == (len(expected), sum(file.size for file in expected))
    assert found.rows == sum(file.rows for file in expected)
    assert [found[-1], found[0], found[7]] == [expected[-1], expected[0], expected[7]]
    assert list(found[3:-4]) == expected[3:-4]
    assert found.column("modified").tolist() == [file.modified for file in expected]
    for time in [0, 1 << 63, *(file.last_time + chooser.randrange(-1, 2) for file in expected[::9])]:
        assert found.position_after(time) == sum(file.last_time <= time for file in expected)
        end = time + (chooser.randrange(50) << 32)
        wanted = [file for file in expected if file.last_time > time and file.first_time <= end]
        assert list(found.between(time, end)) == wanted
    paths = [file.path for file in expected[::5]]
    assert found.holds(paths)
    assert not found.holds([*paths, "other"])
    assert found.others([*paths, "one", "two"]) == {"one", "two"}
    with pytest.raises(IndexError):
        found[len(expected)]


def test_files_that_overlap_are_refused() -> None:
    files = files_at(range(10, 20))
    found = FileList().changed((), files)
    chooser = random.Random(SEED)
    for wrong in (file_at(15, chooser), file_at(5, chooser, 6), file_at(19, chooser, 2)):
        with pytest.raises(FileOrderError):
            found.changed((), [wrong])
    with pytest.raises(FileOrderError):
        found.changed((), [file_at(30, chooser, 3), file_at(31, chooser)])
    shuffled = [columns_of(files[5:]), columns_of(files[:5])]
    assert list(FileList.of(shuffled)) == files
    with pytest.raises(FileOrderError):
        FileList.of([*shuffled, columns_of(files[3:4])])


def test_columns_hold_everything_of_a_file() -> None:
    files = files_at(range(1, 700))
    assert list(files_of(columns_of(files))) == files
    assert [(file.first_time, file.last_time) for file in files] == list(
        zip(*(columns_of(files)[name].to_pylist() for name in ("first_time", "last_time")), strict=True)
    )


def adds(folder: Path) -> list[dict[str, Any]]:
    (checkpoint,) = (folder / "_delta_log").glob("*.checkpoint.parquet")
    return [add for add in pq.read_table(checkpoint)["add"].to_pylist() if add is not None]


def test_a_checkpoint_has_the_statistics_that_a_commit_has(tmp_path: Path) -> None:
    """Those of the checkpoint are written and read in columns."""
    files = files_at(range(1, 50))
    table = with_files(tmp_path, files)
    make_checkpoint(table)
    assert [(add["path"], add["stats"]) for add in adds(tmp_path)] == [
        (file.path, file.stats) for file in files
    ]
    assert list(HistoryTable.open(tmp_path).files) == files


@pytest.mark.parametrize("by", ["tailrace", "deltalake"])
def test_a_table_is_the_same_from_a_checkpoint(tmp_path: Path, by: str) -> None:
    files = files_at(range(1, 40))
    table = with_files(tmp_path, files[:30])
    merged = file_at(3, random.Random(SEED), 7)
    (tmp_path / merged.path).touch()
    assert change_files(table, [merged], removed=files[2:9])
    if by == "tailrace":
        make_checkpoint(table)
    else:
        delta_table(table.store).create_checkpoint()
    for old in range(table.version + 1):
        (tmp_path / "_delta_log" / f"{old:020d}.json").unlink()
    assert write_commit(table, "WRITE", added=files[30:])
    opened = HistoryTable.open(tmp_path)
    assert list(opened.files) == list(table.files) == [*files[:2], merged, *files[9:]]
    assert (opened.version, opened.through, opened.begins) == (table.version, table.through, table.begins)
    assert (opened.identity, opened.release, opened.removals) == (
        table.identity,
        table.release,
        table.removals,
    )
    assert opened.removals.keys() == {file.path for file in files[2:9]}
    # Others read the same: the files, their statistics and the positions.
    other = DeltaTable(str(tmp_path))
    rows = pa.table(other.get_add_actions(flatten=True)).sort_by("min.token").to_pylist()
    assert [(row["path"], row["size_bytes"], row["num_records"], row["max.token"]) for row in rows] == [
        (file.path, file.size, file.rows, file.last_token) for file in opened.files
    ]
    assert other.transaction_version("tailrace.through.seconds") == table.through >> 32
    assert other.metadata().configuration["tailrace.identity"] == "set-1"
    assert [field.name for field in other.schema().fields][:2] == ["token", "token_type_bits"]


def test_a_checkpoint_in_parts_is_read(tmp_path: Path) -> None:
    files = files_at(range(1, 20))
    table = with_files(tmp_path, files)
    make_checkpoint(table)
    log = tmp_path / "_delta_log"
    (whole,) = log.glob("*.checkpoint.parquet")
    rows = pq.read_table(whole)
    for part, (start, stop) in enumerate(pairwise((0, 12, rows.num_rows)), 1):
        name = f"{table.version:020d}.checkpoint.{part:010d}.{2:010d}.parquet"
        pq.write_table(rows.slice(start, stop - start), log / name)
    whole.unlink()
    for version in range(table.version + 1):
        (log / f"{version:020d}.json").unlink()
    assert list(HistoryTable.open(tmp_path).files) == files
    next(log.glob("*.checkpoint.*.parquet")).unlink()
    with pytest.raises(HistoryError, match="there is no history"):
        HistoryTable.open(tmp_path)


def test_a_commit_that_is_missing_is_named(tmp_path: Path) -> None:
    table = with_files(tmp_path, files_at(range(1, 5)))
    assert write_commit(table, "WRITE")
    missing = tmp_path / "_delta_log" / f"{1:020d}.json"
    missing.unlink()
    with pytest.raises(HistoryError, match="is missing") as refused:
        HistoryTable.open(tmp_path)
    assert str(missing) in str(refused.value)


def test_statistics_of_other_programs_are_refused(tmp_path: Path) -> None:
    table = with_files(tmp_path, files_at(range(1, 5)))
    make_checkpoint(table)
    (checkpoint,) = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(checkpoint)
    for stats in (None, "{}", json.dumps({"minValues": {"token": "82"}})):
        changed = rows.to_pylist()
        for row in changed:
            if row["add"] is not None:
                row["add"]["stats"] = stats
        pq.write_table(pa.Table.from_pylist(changed, rows.schema), checkpoint)
        with pytest.raises(HistoryError, match="was changed by another program"):
            HistoryTable.open(tmp_path)


def test_a_table_with_features_of_delta_is_refused(tmp_path: Path) -> None:
    table = with_files(tmp_path, files_at(range(1, 5)))
    feature = {
        "protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    }
    path = tmp_path / "_delta_log" / f"{table.version + 1:020d}.json"
    path.write_text(json.dumps(feature) + "\n")
    for read in (table.refresh, lambda: HistoryTable.open(tmp_path)):
        with pytest.raises(HistoryError, match="was changed by another program"):
            read()
