"""Writers of the history are killed at random moments: no row is lost, none is stored twice."""

import os
import random
from multiprocessing import get_context
from pathlib import Path

import pytest

from tailrace.lake.rows import RowBuilder
from tailrace.lake.schema import SCHEMA
from tailrace.lake.table import HistoryTable
from tailrace.lake.vacuum import vacuum
from tests.lake.killed_writer import build, compact_and_vacuum, ends_of, events_of
from tests.lake.stored import new_table, read_back

ROUNDS = 12


@pytest.mark.parametrize("seed", [20260800, 20260801])
def test_killed_writers_leave_a_complete_history(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processes are forked from one that has imported everything, which is fast.
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
        compactor = processes.Process(target=compact_and_vacuum, args=(str(tmp_path),))
        builder.start()
        compactor.start()
        # After some rounds the builder is not killed, so that the test ends.
        if killed < ROUNDS:
            first, second = rng.sample((builder, compactor), 2)
            first.join(rng.uniform(0.05, 0.4))
            killed += first.is_alive()
            first.kill()
            second.join(rng.uniform(0, 0.2))
            killed += second.is_alive()
        else:
            builder.join()
        builder.kill()
        compactor.kill()
        for process in (builder, compactor):
            process.join()
            process.close()
        table.refresh()
        # A reader that continues at its position reads every row once, even if files were replaced.
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
