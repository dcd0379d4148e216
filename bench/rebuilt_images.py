"""Processor time and disk space of images that are rebuilt, beside reading the same history.

One process. 20,000 documents of 1 kB, each with five updates.
"""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

from tailrace.lake.event_reader import EventReader
from tailrace.lake.past.rebuilt_images import VersionsOfHistory
from tailrace.lake.past.versions import DocumentVersions
from tailrace.lake.table import HistoryTable
from tailrace.testing.replica_set import ReplicaSet

DOCUMENTS = 20_000
AT_ONCE = 1000
UPDATES = 5
ASKED = 20_000


def write(history: Path) -> HistoryTable:
    with ReplicaSet(history=history, builds_history=True) as source:
        orders = source.client().shop.orders
        for first in range(0, DOCUMENTS, AT_ONCE):
            orders.insert_many(
                [{"_id": number, "n": 0, "text": "x" * 900} for number in range(first, first + AT_ONCE)]
            )
        for _ in range(UPDATES):
            orders.update_many({}, {"$inc": {"n": 1}})
        source.catch_up()
    return HistoryTable.open(history)


def main() -> None:
    print("images: pre-images rebuilt from a history, one process", flush=True)
    with TemporaryDirectory() as folder:
        table = write(Path(folder) / "history")
        reader = EventReader()
        begin = process_time()
        events = [event for batch in table.read(table.begins) for event in reader.events(batch)]
        reading = process_time() - begin
        versions = DocumentVersions(Path(folder) / "images.sqlite")
        begin = process_time()
        for _ in VersionsOfHistory(table, versions).advance():
            pass
        building = process_time() - begin
        asked = Random(1).sample([event for event in events if event.update is not None], ASKED)
        begin = process_time()
        assert all(versions.before(event) is not None for event in asked)
        finding = process_time() - begin
        print(f"  reading a change             {reading / table.rows * 1e6:8.1f} µs")
        print(f"  reading and keeping a change {building / table.rows * 1e6:8.1f} µs")
        print(f"  keeping against reading      {building / reading:8.1f} times")
        print(f"  finding an image             {finding / ASKED * 1e6:8.1f} µs")
        print(f"  bytes for a change           {versions.size / table.rows:8.0f}", flush=True)
        versions.close()
