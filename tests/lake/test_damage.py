"""Damaged files of a history: an error that names the file, never other events."""

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tailrace.errors import HistoryError
from tailrace.lake.compaction import compact
from tailrace.lake.table import HistoryTable
from tests.lake.stored import canonical_events, fill, new_table
from tests.support.workload import generate

SEED = 20261117
EVENTS = canonical_events(generate(20260600, operations=200))


@pytest.fixture
def table(tmp_path: Path) -> HistoryTable:
    table = new_table(tmp_path / "h")
    fill(table, EVENTS, pieces=3)
    return table


def rows(path: Path) -> list[object]:
    return [row for batch in HistoryTable.open(path).read(0) for row in batch.to_pylist()]


@pytest.mark.parametrize("flips", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_never_another_event(table: HistoryTable, flips: int) -> None:
    written = rows(Path(table.place))
    file = Path(table.place) / table.files[1].path
    content = file.read_bytes()
    chooser = random.Random(SEED)
    found = 0
    for _ in range(flips):
        place, bit = chooser.randrange(len(content)), chooser.randrange(8)
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        file.write_bytes(damaged)
        try:
            read = rows(Path(table.place))
        except HistoryError as error:
            found += str(file) in str(error)
        else:
            assert read == written, f"byte {place}, bit {bit}, seed {SEED}"
    assert found > 0.95 * flips


@pytest.mark.parametrize("cut", [0, 3, 4, 100, -1, -9, -2000])
def test_a_truncated_file(table: HistoryTable, cut: int) -> None:
    file = Path(table.place) / table.files[1].path
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(HistoryError, match="is damaged") as refused:
        rows(Path(table.place))
    assert str(file) in str(refused.value)


def test_damaged_rows_are_not_merged_into_a_sound_file(table: HistoryTable) -> None:
    file = Path(table.place) / table.files[1].path
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(HistoryError, match="is damaged"):
        compact(table, min_files=2)


def test_other_readers_verify_the_pages(table: HistoryTable) -> None:
    """The checksums of pages are Parquet's own."""
    file = Path(table.place) / table.files[1].path
    content = bytearray(file.read_bytes())
    column = pq.read_metadata(file).row_group(0).column(0)
    content[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match="CRC checksum verification failed"):
        pq.ParquetFile(file, page_checksum_verification=True).read()


@pytest.mark.parametrize("number", [0, 2, 3])
@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "no document"])
def test_a_damaged_commit(table: HistoryTable, number: int, damage: str) -> None:
    file = Path(table.place) / "_delta_log" / f"{number:020d}.json"
    content = file.read_bytes()
    damages = {"empty": b"", "half": content[: len(content) // 2], "garbage": b"\0x", "no document": b"[]\n"}
    file.write_bytes(damages[damage])
    with pytest.raises(HistoryError, match="is damaged") as refused:
        HistoryTable.open(table.place)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_damaged_commit_while_a_reader_follows(table: HistoryTable) -> None:
    file = Path(table.place) / "_delta_log" / f"{table.version + 1:020d}.json"
    file.write_bytes(b'{"add": {"path"')
    with pytest.raises(HistoryError, match="is damaged"):
        table.refresh()


def test_an_error_of_delta_is_one_line(table: HistoryTable) -> None:
    file = Path(table.place) / "_delta_log" / f"{1:020d}.json"
    file.write_bytes(file.read_bytes().replace(b'"version":', b'"version":"x","other":'))
    with pytest.raises(HistoryError, match="cannot be read") as refused:
        HistoryTable.open(table.place)
    assert "\n" not in str(refused.value)
