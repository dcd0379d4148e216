"""What changes of a mirrored table cost, by the size of the table and by where the changes are, in both ways.

    python -m bench.mirror_merge 100000 1000000

Batches of changes are applied to tables of several sizes: new documents at the end, documents written
again in a tenth of the keys, and anywhere, and diffs anywhere. A table without deletion vectors gets a few
batches, which write its files again. A table with them gets many: rows that one batch marks are written
again, in pieces, by later ones. Printed are bytes written and processor time of a batch, the runs that were
there at the end, and the part of the rows that was dead.
"""

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow as pa

from tailrace.bson.documents import encode
from tailrace.bson.id_key import id_key
from tailrace.lake.mirror.bulk_keys import row_keys
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import TARGET_BYTES, MirrorFile, write_rows
from tailrace.lake.mirror.merge import DIFF, WRITE, RowChange
from tailrace.lake.mirror.mirror_table import MirrorTable
from tailrace.lake.mirror.typed_rows import TableColumns, TypedRows
from tailrace.pipeline.mirror.lacking import TableChanges
from tailrace.pipeline.mirror.table_batches import BatchLimits, table_batch
from tailrace.pipeline.mirror.tasks import run_one_by_one

CHANGES: Final = 25_000
"""Five seconds of 5,000 changes"""
_PIECE: Final = 50_000
_BATCHES: Final = 3
_REWRITTEN_ROWS: Final = 3_000_000
"""A table of more rows gets one batch that writes them again"""
_MARKED_BATCHES: Final = 40
"""Enough for runs to be joined, and for the base files of 1,000,000 rows to be written again"""
_SECOND: Final = 1 << 32


def document(number: int, version: int = 0) -> bytes:
    return encode({
        "_id": number,
        "customer": f"c{number % 997}",
        "total": number * 1.5 + version,
        "items": [{"sku": number % 50, "n": 2}],
        "note": f"{random.Random(number).getrandbits(256):064x}",
    })  # fmt: skip


def filled(folder: Path, rows: int) -> MirrorTable:
    """A table with that many rows."""
    columns = TableColumns()
    table = MirrorTable.create(
        folder / "shop" / "orders", identity="", namespace="shop.orders", through=_SECOND, columns=columns
    )
    typed = TypedRows(columns)
    files: list[MirrorFile] = []
    for start in range(0, rows, _PIECE):
        numbers = range(start, min(start + _PIECE, rows))
        documents = pa.array([document(number) for number in numbers], pa.binary())
        (piece,) = typed.copied(row_keys(documents), documents, _SECOND)
        files += write_rows(table.store, piece, name="copy")
    table.commit(files, copy_state=CopyState.empty_at(_SECOND), layout=typed.found.layout)
    return table


def written(number: int, time: int) -> RowChange:
    found = document(number, 1)
    return RowChange(id_key(found), WRITE, found, time, "82", time)


def changed(number: int, time: int) -> RowChange:
    diff = encode({"u": {"total": float(time >> 32)}})
    return RowChange(id_key(encode({"_id": number})), DIFF, diff, time, "82", time)


def apply(table: MirrorTable, changes: list[RowChange], time: int) -> int:
    """Apply a batch; return how many bytes of files it wrote."""
    state = table.copy_state
    limits = BatchLimits(time, TARGET_BYTES, 1, is_settling=False)
    batch = table_batch(table, TableChanges(state, state, False, changes), limits, run_one_by_one)
    merged = batch.merged([task() for task in batch.tasks])
    files = [file for built in merged.built for file in built.files]
    table.commit([*files, *merged.added], merged.removed, through=time)
    return sum(file.size for file in files)


def workloads(rows: int) -> dict[str, Callable[[int], Iterator[RowChange]]]:
    """The changes of a batch, by their kind."""

    def of(make: Callable[[int, int], RowChange], keys: range) -> Callable[[int], Iterator[RowChange]]:
        rng = random.Random(1)
        return lambda number: (make(key, (number + 2) * _SECOND) for key in rng.choices(keys, k=CHANGES))

    def at_the_end(number: int) -> Iterator[RowChange]:
        start = rows + number * CHANGES
        return (written(key, (number + 2) * _SECOND) for key in range(start, start + CHANGES))

    return {
        "new, at the end": at_the_end,
        "in a tenth of the keys": of(written, range(rows // 2, rows // 2 + rows // 10)),
        "anywhere": of(written, range(rows)),
        "diffs, anywhere": of(changed, range(rows)),
    }


def measure(filled_table: Path, rows: int, where: str, marked_batches: int, *, has_vectors: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # No file of a table is ever changed in its place, so links are as good as a copy.
        shutil.copytree(filled_table, folder, copy_function=os.link, dirs_exist_ok=True)
        table = MirrorTable.open(Path(folder) / "shop" / "orders")
        if has_vectors:
            table.enable_vectors()
        make = workloads(rows)[where]
        spent: list[float] = []
        sizes: list[int] = []
        usual = 1 if rows > _REWRITTEN_ROWS else _BATCHES
        batches = marked_batches if has_vectors else usual
        for number in range(batches):
            changes = list(make(number))
            began = time.process_time()
            sizes.append(apply(table, changes, (number + 2) * _SECOND))
            spent.append(time.process_time() - began)
            table.vacuum(0.0)
        dead = sum(file.dead for file in table.live) / sum(file.rows for file in table.live)
        runs = sum(file.is_run for file in table.live)
        cells = [
            f"{rows:,}",
            where,
            "marked" if has_vectors else "rewritten",
            f"{sum(sizes) / batches / 1e6:,.0f} MB",
            f"{sum(spent) / batches:.2f} s",
            f"{median(spent):.2f} s",
            f"{max(spent):.2f} s",
            f"{runs}",
            f"{dead:.0%}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int, nargs="+")
    parser.add_argument(
        "--batches", type=int, default=_MARKED_BATCHES, help="of tables with deletion vectors"
    )
    arguments = parser.parse_args()
    print("| Rows | Changes | Way | Written in a batch | Mean time | Median | Most | Runs | Dead |")
    print("|---|---|---|---|---|---|---|---|---|")
    for rows in arguments.rows:
        with tempfile.TemporaryDirectory() as folder:
            filled(Path(folder), rows)
            for where in workloads(rows):
                for has_vectors in (False, True):
                    measure(Path(folder), rows, where, arguments.batches, has_vectors=has_vectors)


if __name__ == "__main__":
    main()
