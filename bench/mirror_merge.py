"""What changes of a mirrored table cost, by the size of the table and by where the changes are.

    python -m bench.mirror_merge 100000 1000000

One batch of changes is merged into tables of several sizes: new documents at the end, changes of a tenth of
the keys, and changes anywhere. Printed are processor time and rewritten bytes.
"""

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow as pa

from tailrace.bson.documents import encode
from tailrace.bson.id_key import id_key
from tailrace.lake.mirror.bulk_keys import row_keys
from tailrace.lake.mirror.copy_state import CopyState
from tailrace.lake.mirror.data_files import MirrorFile, write_rows
from tailrace.lake.mirror.grouping import changes_by_file
from tailrace.lake.mirror.merge import WRITE, RowChange, merge_changes
from tailrace.lake.mirror.typed_rows import TableColumns, TypedRows
from tailrace.lake.storage.log_store import LogStore, open_store

CHANGES: Final = 25_000
"""Five seconds of 5,000 changes"""
_PIECE: Final = 50_000


def document(number: int, version: int = 0) -> bytes:
    return encode({
        "_id": number,
        "customer": f"c{number % 997}",
        "total": number * 1.5 + version,
        "items": [{"sku": number % 50, "n": 2}],
        "note": f"{random.Random(number).getrandbits(256):064x}",
    })  # fmt: skip


def filled(store: LogStore, rows: int, typed: TypedRows) -> list[MirrorFile]:
    """The files of a table with that many rows."""
    files: list[MirrorFile] = []
    for start in range(0, rows, _PIECE):
        numbers = range(start, min(start + _PIECE, rows))
        documents = pa.array([document(number) for number in numbers], pa.binary())
        (piece,) = typed.copied(row_keys(documents), documents, 1 << 32)
        files += write_rows(store, piece, name="copy")
    return files


def main() -> None:
    rng = random.Random(1)
    print("| Rows | Changes | Files rewritten | Bytes rewritten | Processor time |")
    print("|---|---|---|---|---|")
    for rows in map(int, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as folder:
            store = open_store(Path(folder))
            typed = TypedRows(TableColumns())
            files = filled(store, rows, typed)
            places = {
                "new, at the end": range(rows, rows + CHANGES),
                "in a tenth of the keys": rng.choices(range(rows // 2, rows // 2 + rows // 10), k=CHANGES),
                "anywhere": rng.choices(range(rows), k=CHANGES),
            }
            for where, numbers in places.items():
                changes = [
                    RowChange(id_key(found), WRITE, found, 2 << 32, "82", 2 << 32)
                    for found in (document(number, 1) for number in numbers)
                ]
                began = time.process_time()
                groups = changes_by_file(files, CopyState.empty_at(1), changes)
                for group in groups:
                    merge_changes([store], group.files, group.changes, typed, name="merge")
                spent = time.process_time() - began
                touched = [file for group in groups for file in group.files]
                size = sum(file.size for file in touched) >> 20
                count = f"{len(touched)} of {len(files)}"
                print(f"| {rows:,} | {where} | {count} | {size} MB | {spent:.1f} s |", flush=True)


if __name__ == "__main__":
    main()
