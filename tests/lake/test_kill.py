"""kill -9 of who writes the history, at any moment: nothing is lost, nothing is there twice."""

import os
import random
from multiprocessing import get_context
from pathlib import Path

import pytest

from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import SCHEMA
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tests.lake.killed_writer import build, ends_of, events_of, tidy
from tests.lake.stored import new_table, read_back

ROUNDS = 12


@pytest.mark.parametrize("seed", [20260800, 20260801])
def test_killed_writers_leave_a_sound_history(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A process that has everything imported is forked again and again.
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root)]))
    processes = get_context("forkserver")
    processes.set_forkserver_preload(["tests.lake.killed_writer"])
    rng = random.Random(seed)
    events = events_of(seed)
    end = ends_of(events)[-1]
    table = new_table(tmp_path)
    reader = HistoryTable.open(tmp_path)
    seen: list[str] = []
    killed = 0
    while table.through < end:
        builder = processes.Process(target=build, args=(str(tmp_path), seed))
        tidier = processes.Process(target=tidy, args=(str(tmp_path),))
        builder.start()
        tidier.start()
        # After some rounds the builder is let alone, so that the test ends.
        if killed < ROUNDS:
            first, second = rng.sample((builder, tidier), 2)
            first.join(rng.uniform(0.05, 0.4))
            killed += first.is_alive()
            first.kill()
            second.join(rng.uniform(0, 0.2))
            killed += second.is_alive()
        else:
            builder.join()
        builder.kill()
        tidier.kill()
        for process in (builder, tidier):
            process.join()
            process.close()
        table.refresh()
        # A reader that goes on where it was sees every row once, whatever happened to the files meanwhile.
        last = reader.through
        reader.refresh()
        for batch in reader.read(last, columns=("token",)):
            seen += batch.column("token").to_pylist()
    expected = RowBuilder().batch(events)
    assert killed >= 2
    assert seen == expected.column("token").to_pylist()
    found = list(HistoryTable.open(tmp_path).read(0, columns=SCHEMA.names))
    assert [row for batch in found for row in batch.column("event").to_pylist()] == (
        expected.column("event").to_pylist()
    )
    assert len(read_back(found)) == len(events)
    vacuum(table, grace_seconds=-1)
    assert {path.name for path in tmp_path.glob("*.parquet")} == {file.path for file in table.files}
