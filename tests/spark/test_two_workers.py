"""Workers in mount namespaces of their own, without credentials and without Spark: what tasks and commits do.

`tests/laws/test_spark_object_store.py` does the same with a cluster of Spark, which takes minutes.
"""

import os
import pickle
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql.datasource import InputPartition

from tailrace.errors import HistoryError
from tailrace.lake.storage.log_store import open_store
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.batches import BatchPlan, BuiltPiece
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.committing import commit_pieces
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tailrace.spark.history_source import BatchReader
from tests.laws.law_seeds import BASE_SEED
from tests.spark.pipeline_runs import events_of
from tests.spark.standalone_cluster import HIDDEN, require_namespaces
from tests.spark.test_object_store import data_files
from tests.support.bulk import generate_bulk
from tests.support.object_store import ObjectStoreServer

WORKER = """
import pickle, sys
from tailrace.spark.history_source import BatchReader
while True:
    reader, partition = pickle.load(sys.stdin.buffer)
    pickle.dump([row[2] for row in reader.read(partition)], sys.stdout.buffer)
    sys.stdout.flush()
"""


class Worker:
    """A process that runs tasks; it sees nothing of a folder, and has no credentials."""

    def __init__(self, hidden: Path) -> None:
        kept = {name: text for name, text in os.environ.items() if not name.startswith(("AWS_", "TAILRACE_"))}
        self._process = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", HIDDEN, str(hidden), sys.executable, "-c", WORKER],
            env=kept,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def start(self, reader: BatchReader, task: InputPartition) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps((reader, task)))
        self._process.stdin.flush()

    def result(self) -> list[BuiltPiece]:
        assert self._process.stdout is not None
        return [pickle.loads(built) for built in pickle.load(self._process.stdout)]

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(60)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


@pytest.fixture
def hidden(tmp_path: Path) -> Path:
    require_namespaces()
    folder = tmp_path / "hidden"
    folder.mkdir()
    return folder


def reader_of(source: FilesSource, history: str | Path) -> BatchReader:
    settings = PipelineSettings(history, interval=None, max_entries=800, small_entries=100)
    held = open_table(source, settings).through
    return BatchReader(BatchPlan(source, settings, held, cores=2))


def batches_of(reader: BatchReader) -> Iterator[Sequence[InputPartition]]:
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, None)) != start:  # type: ignore[arg-type]
        yield reader.partitions(start, end)
        start = end


def test_kills_of_workers_lost_answers_and_a_second_driver_change_nothing(
    hidden: Path, objects: ObjectStoreServer
) -> None:
    content = b"".join(generate_bulk(BASE_SEED, 1500))
    (hidden / "oplog.bson").write_bytes(content)
    archive, place = open_store(objects.url(uuid4().hex)), objects.url(uuid4().hex)
    archive.create("oplog.bson", content)
    local = reader_of(FilesSource({"": [str(hidden / "oplog.bson")]}), hidden / "history")
    remote = reader_of(FilesSource({"": [archive.place]}), place)
    choice = random.Random(BASE_SEED)
    drivers = [HistoryTable.open(place) for _ in "ab"]
    here = HistoryTable.open(hidden / "history")
    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        workers = [Worker(hidden) for _ in range(2)]
        for worker in workers:
            stack.callback(worker.kill)
        count = 0
        for tasks, same in zip(batches_of(remote), batches_of(local), strict=True):
            assert len(tasks) > 2
            objects.fail("lost", "PUT", choice.choice((".parquet", ".json")), 1)
            if not count:
                # One worker dies with a task; whatever it has stored, the other one repeats the task.
                victim = Worker(hidden)
                victim.start(remote, tasks[0])
                victim.kill()
            built = []
            for number, task in enumerate(tasks):
                worker = workers[number % 2]
                worker.start(remote, task)
                built += worker.result()
            workers[0].start(remote, tasks[-1])  # a task that Spark has started twice
            assert names(workers[0].result()) == names(built[-1:])
            done = list(pool.map(commit_pieces, drivers, (built, built)))
            assert sorted(rows is None for rows in done) == [False, True]
            commit_pieces(here, [pickle.loads(row[2]) for task in same for row in local.read(task)])
            count += 1
        assert count == 2
    written = data_files(place)
    assert written == data_files(hidden / "history")
    assert len(written) > 4
    assert events_of(place) == events_of(hidden / "history")
    with pytest.raises(HistoryError, match="disagree"):
        commit_pieces(HistoryTable.open(remote_of_another(archive.place, objects)), built)


def names(built: Sequence[BuiltPiece]) -> list[tuple[str, int]]:
    return [(file.path, file.size) for done in built for file in done.files]


def remote_of_another(archive: str, objects: ObjectStoreServer) -> str:
    """A history that holds nothing yet."""
    place = objects.url(uuid4().hex)
    reader_of(FilesSource({"": [archive]}), place)
    return place
