"""Batches of changes on a table with deletion vectors: random histories, against a table without them."""

import pickle
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pytest

from tailrace.bson.documents import decode, encode
from tailrace.bson.id_key import id_key
from tailrace.errors import PipelineError
from tailrace.lake.mirror.bulk_keys import row_keys
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import write_rows
from tailrace.lake.mirror.merge import DELETE, DIFF, WRITE, RowChange
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import TableColumns, TypedRows, agreed
from tailrace.pipeline.mirror.lacking import TableChanges
from tailrace.pipeline.mirror.table_batches import BatchLimits, table_batch
from tailrace.pipeline.mirror.tasks import Task

FILE_BYTES = 20_000
SECOND = 1 << 32
SEEDS = range(41, 43)


def table_with(folder: Path, documents: Sequence[bytes], *, has_vectors: bool) -> MirrorTable:
    columns = TableColumns()
    table = MirrorTable.create(
        folder / "shop" / "a", identity="", namespace="shop.a", through=SECOND, columns=columns
    )
    if has_vectors:
        table.enable_vectors()
    typed = TypedRows(columns)
    found = pa.array(documents, pa.binary())
    (rows,) = typed.copied(row_keys(found), found, SECOND)
    files = write_rows(table.store, rows, name="copy", target_bytes=FILE_BYTES)
    table.commit(files, copy_state=CopyState.empty_at(SECOND), layout=typed.found.layout)
    return table


def run_elsewhere(tasks: Sequence[Task]) -> list[Any]:
    """Run tasks as Spark does: they, and what they return, are sent."""
    return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(task))())) for task in tasks]


def apply(table: MirrorTable, changes: Sequence[RowChange], time: int, cores: int = 1) -> int:
    """Apply a batch as the engine does; return how many rows it wrote."""
    state = table.copy_state
    limits = BatchLimits(time, FILE_BYTES, cores, is_settling=False)
    batch = table_batch(table, TableChanges(state, state, False, changes), limits, run_elsewhere)
    merged = batch.merged(run_elsewhere(batch.tasks))
    layout, _ = agreed(table.layout, table.kind, [each.columns for each in merged.built])
    files = [file for built in merged.built for file in built.files]
    table.commit([*files, *merged.added], merged.removed, layout=layout, through=time)
    return sum(file.rows for file in files)


class Changes:
    """Random changes, and the documents after them."""

    def __init__(self, rng: random.Random, count: int) -> None:
        self._rng = rng
        self._highest = 2 * count
        self.documents = {
            id_key(each): each for each in (encode({"_id": 2 * number, "v": -1}) for number in range(count))
        }

    def batch(self, time: int, count: int, deletes: float) -> list[RowChange]:
        rng = self._rng
        found: list[RowChange] = []
        where = rng.choice(["anywhere", "in a part", "at the end"])
        start = rng.randrange(self._highest + 1)
        for _ in range(count):
            if where == "at the end":
                self._highest += rng.randrange(3)
                number = self._highest
            elif where == "in a part":
                number = start + rng.randrange(count + 5)
            else:
                number = rng.randrange(self._highest + 10)
            found.append(self._change(number, time, is_delete=rng.random() < deletes))
        return found

    def _change(self, number: int, time: int, *, is_delete: bool) -> RowChange:
        rng, token = self._rng, "82"
        field = rng.choice(["v", "w", f"x{time >> 36}"])
        document = encode({"_id": number, field: time >> 32, "s": "s" * rng.randrange(20)})
        key = id_key(document)
        before = self.documents.get(key)
        if is_delete:
            self.documents.pop(key, None)
            return RowChange(key, DELETE, encode({"_id": number}), time, token, time)
        if before is not None and rng.random() < 0.5:
            # An inserted field is the last one, also if it was there.
            self.documents[key] = _with_last(before, time >> 32)
            return RowChange(key, DIFF, encode({"i": {"d": time >> 32}}), time, token, time)
        self.documents[key] = document
        return RowChange(key, WRITE, document, time, token, time)

    @property
    def ordered(self) -> list[bytes]:
        return [self.documents[key] for key in sorted(self.documents)]


def _with_last(document: bytes, value: int) -> bytes:
    fields = decode(document)
    fields.pop("d", None)
    return encode({**fields, "d": value})


def rows_of(table: MirrorTable) -> polars.DataFrame:
    """What a reader of Delta finds, in the order of keys."""
    rows = polars.read_delta(table.place).sort("_key")
    return rows.select(sorted(rows.columns))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("count", [0, 1500])
def test_tables_have_the_same_rows_in_both_ways(seed: int, count: int, tmp_path: Path) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    changes = Changes(rng, count)
    marked, written = (
        table_with(tmp_path / name, changes.ordered, has_vectors=name == "marked")
        for name in ("marked", "written")
    )
    for number in range(2, 112):
        time = number * SECOND
        batch = changes.batch(time, rng.choice([1, 5, 40]), deletes=0.2 if number < 80 else 0.7)
        apply(marked, batch, time, cores=rng.choice([1, 3]))
        apply(written, batch, time)
        if number % 27 == 0 or number == 111:
            again = MirrorTable.open(marked.place)
            assert again.live == marked.live
            assert again.documents() == changes.ordered
            assert again.rows == len(changes.ordered)
            assert rows_of(marked).equals(rows_of(written))
            assert {file.name for file in marked.store.list()} >= needed_by(marked)
            marked.vacuum(0.0)
            assert {file.name for file in marked.store.list()} == needed_by(marked)
            base = [file for file in marked.live if not file.is_run]
            assert all(left.last_key < right.first_key for left, right in pairwise(base))
    assert marked.log.checkpoint_version() > 90


def needed_by(table: MirrorTable) -> set[str]:
    vectors = {file.vector.file for file in table.live if file.vector is not None}
    return {file.path for file in table.live} | {name for name in vectors if name is not None}


def test_what_a_batch_writes_grows_with_its_changes_and_not_with_the_table(tmp_path: Path) -> None:
    written: dict[int, float] = {}
    for count in (2000, 16_000):
        documents = Changes(random.Random(7), count).ordered
        table = table_with(tmp_path / str(count), documents, has_vectors=True)
        assert len(table.live) > count / 400
        rng = random.Random(8)
        total, most_runs, batches = 0, 0, 150
        for number in range(2, batches + 2):
            time = number * SECOND
            batch = [
                RowChange(id_key(each), WRITE, each, time, "82", time)
                for each in rng.choices(documents, k=10)
            ]
            total += apply(table, batch, time)
            most_runs = max(most_runs, sum(file.is_run for file in table.live))
        written[count] = total / (10 * batches)
        dead = sum(file.dead for file in table.live) / sum(file.rows for file in table.live)
        assert most_runs <= 40
        assert dead < 0.3
        assert table.documents() == documents
    # Writing the files of the changed rows again would be 100 rows and more for a change.
    assert all(rows < 12 for rows in written.values()), written


def test_an_update_of_a_document_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    table = table_with(tmp_path, [encode({"_id": 1})], has_vectors=True)
    diff = RowChange(id_key(encode({"_id": 2})), DIFF, encode({"i": {"a": 1}}), SECOND, "82", SECOND)
    with pytest.raises(PipelineError, match="lacks a document that was updated"):
        apply(table, [diff], 2 * SECOND)
