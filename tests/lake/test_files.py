"""Data files of the history: what is written twice, what fails, and what a file says of its rows."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailrace.events.change_event import ChangeEvent
from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import ENCODED, REPEATED
from tailrace.lake.writer import write_files
from tests.lake.stored import canonical_events
from tests.support.workload import generate


@pytest.fixture(scope="module")
def events() -> list[ChangeEvent]:
    return canonical_events(generate(20260710, operations=60))


def rows(events: list[ChangeEvent]) -> pa.RecordBatch:
    return RowBuilder().batch(events)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_same_rows_written_again_are_the_same_file(tmp_path: Path, events: list[ChangeEvent]) -> None:
    (first,) = write_files(tmp_path, [rows(events)], name="part")
    before = (tmp_path / first.path).stat()
    (again,) = write_files(tmp_path, [rows(events)], name="part")
    assert (again.path, again.size, again.rows) == (first.path, first.size, first.rows) == (
        "part-0000.parquet", before.st_size, len(events),
    )  # fmt: skip
    assert names(tmp_path) == ["part-0000.parquet"]
    assert (tmp_path / first.path).stat().st_ino == before.st_ino


def test_other_rows_under_the_name_of_a_file_have_a_file_of_their_own(
    tmp_path: Path, events: list[ChangeEvent]
) -> None:
    (first,) = write_files(tmp_path, [rows(events)], name="part")
    content = (tmp_path / first.path).read_bytes()
    (other,) = write_files(tmp_path, [rows(events[:5])], name="part")
    assert other.path != first.path
    assert other.path.startswith("part-0000-")
    assert other.path.endswith(".parquet")
    assert names(tmp_path) == sorted([first.path, other.path])
    assert (tmp_path / first.path).read_bytes() == content
    assert pq.read_metadata(tmp_path / other.path).num_rows == other.rows == 5


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path, events: list[ChangeEvent]) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(events)
        raise OSError("no more rows")

    with pytest.raises(OSError, match="no more rows"):
        write_files(tmp_path, failing(), name="part", row_group_rows=1)
    assert names(tmp_path) == []


def test_no_rows_no_file(tmp_path: Path, events: list[ChangeEvent]) -> None:
    assert write_files(tmp_path, [], name="part") == []
    assert write_files(tmp_path, [rows(events).slice(0, 0)], name="part") == []
    assert names(tmp_path) == []


def test_row_groups_and_files(tmp_path: Path, events: list[ChangeEvent]) -> None:
    batches = [rows(events[place : place + 4]) for place in range(0, len(events), 4)]
    (file,) = write_files(tmp_path, batches, name="one", row_group_rows=8)
    metadata = pq.read_metadata(tmp_path / file.path)
    groups = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    assert set(groups[:-1]) == {8}
    assert sum(groups) == len(events)
    many = write_files(tmp_path, batches, name="many", row_group_rows=1, target_bytes=1, durable=False)
    assert [found.path for found in many] == [f"many-{number:04d}.parquet" for number in range(len(many))]
    assert len(many) > 5
    for found, following in itertools.pairwise(many):
        assert found.last_time < following.first_time
        assert found.first_token <= found.last_token < following.first_token
    assert sum(found.rows for found in many) == len(events)


def test_what_a_file_says_of_its_rows(tmp_path: Path, events: list[ChangeEvent]) -> None:
    walls = [int.from_bytes(event.entry.wall, "little", signed=True) for event in events]
    (file,) = write_files(tmp_path, [rows(events[:9]), rows(events[9:])], name="part", row_group_rows=1)
    assert (file.first_wall, file.last_wall, file.walls_missing) == (min(walls), max(walls), 0)
    tokens = rows(events).column("token").to_pylist()
    assert (file.first_token, file.last_token) == (tokens[0], tokens[-1])
    without = rows(events)
    place = without.schema.get_field_index("wall_time")
    empty = pa.nulls(len(events), without.schema.field(place).type)
    (file,) = write_files(
        tmp_path, [without.set_column(place, without.schema.field(place), empty)], name="none"
    )
    assert (file.first_wall, file.last_wall, file.walls_missing) == (None, None, len(events))


def test_columns_with_dictionaries_make_the_same_files(tmp_path: Path, events: list[ChangeEvent]) -> None:
    batches = [rows(events[place : place + 7]) for place in range(0, len(events), 7)]
    written = []
    for name, own in (("dense", batches), ("encoded", list(map(encoded, batches)))):
        (tmp_path / name).mkdir()
        (file,) = write_files(tmp_path / name, own, name="part", row_group_rows=20)
        written.append((tmp_path / name / file.path).read_bytes())
        assert file.rows == len(events)
    assert written[0] == written[1]


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.dictionary_encode() if field.name in REPEATED else column
        for field, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ENCODED)
