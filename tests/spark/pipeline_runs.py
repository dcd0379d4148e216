"""Pipelines for tests: a job in a thread, and the events of a history."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bson import Timestamp
from pymongo import MongoClient
from pyspark.sql import SparkSession

from tailrace.events.cluster_time import from_timestamp
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.source import OplogSource
from tailrace.spark.history_job import HistoryJob
from tailrace.traces import Traces
from tests.laws.wire_streams import WireStream
from tests.support.whole_events import whole_events

SECONDS = 240
"""The longest wait: a JVM on a busy machine needs a minute to start."""
EVERYTHING = {
    "showExpandedEvents": True,
    "showCommitTimestamp": True,
    "showMigrationEvents": True,
    "showSystemEvents": True,
}
"""The options of a stream that shows what the history contains."""


class Warnings(logging.Handler):
    """Collects the warnings of pipelines."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.reasons.append(getattr(record, "attributes", {}).get("reason", ""))


@contextmanager
def warnings_of_pipelines() -> Iterator[Warnings]:
    log = logging.getLogger("tailrace.pipeline")
    found = Warnings()
    log.addHandler(found)
    try:
        yield found
    finally:
        log.removeHandler(found)


class RunningJob(threading.Thread):
    def __init__(self, spark: SparkSession, job: HistoryJob) -> None:
        super().__init__(name="pipeline")
        self._spark = spark
        self.job = job
        self.error: BaseException | None = None
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            self.job.run(self._spark, self._ending)
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ending.set()
        self.join(SECONDS)
        assert not self.is_alive()


@contextmanager
def running(
    spark: SparkSession, source: OplogSource, history: str | Path, **settings: Any
) -> Iterator[RunningJob]:
    """Run a job until the block ends."""
    thread = RunningJob(spark, HistoryJob(source, PipelineSettings(history, **settings)))
    thread.start()
    try:
        yield thread
    finally:
        thread.end()
    assert thread.error is None


def build_all(
    spark: SparkSession,
    source: OplogSource,
    history: str | Path,
    traces: Traces | None = None,
    **settings: Any,
) -> HistoryTable:
    """Build a history of everything that a source has now."""
    job = HistoryJob(source, PipelineSettings(history, interval=None, **settings))
    job.traces = traces
    job.run(spark)
    return HistoryTable.open(history)


def events_of(history: str | Path) -> list[bytes]:
    """Return the events of a history in order, without ends of transactions, which servers do not show."""
    found = []
    for batch in HistoryTable.open(history).read(0):
        rows = zip(batch.column("operation").to_pylist(), whole_events(batch), strict=True)
        found += [event for operation, event in rows if event and operation not in (None, "endOfTransaction")]
    return found


def holds(history: str | Path, end: Timestamp) -> bool:
    """Wait until a history contains everything through a cluster time; return whether it did in time."""
    table = HistoryTable.open(history)
    deadline = time.monotonic() + SECONDS
    while table.through < from_timestamp(end) and time.monotonic() < deadline:
        time.sleep(0.01)
        table.refresh()
    return table.through >= from_timestamp(end)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def newest_time(client: "MongoClient[Any]") -> Timestamp:
    """Write a no-op; return its cluster time, which is after all earlier writes."""
    time: Timestamp = client.admin.command("appendOplogNote", data={})["operationTime"]
    return time


def streamed(client: "MongoClient[Any]", end: Timestamp) -> list[bytes]:
    """Return the events of a stream on the whole deployment since the first entry."""
    first = client.local["oplog.rs"].find_one()
    assert first is not None
    return WireStream(client, "", {**EVERYTHING, "startAtOperationTime": first["ts"]}).all_events(end)
