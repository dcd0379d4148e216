"""The pipeline as a job: one streaming query, whose batches the driver commits to the history.

Exactly once comes from three facts. The same interval of the same oplogs gives the same rows, in files of
the same names. The table takes an interval only if it begins where the table ends, in one commit together
with the new end. And the table, not Spark's checkpoint, says where a query begins. So a batch that was cut
off anywhere is either held as a whole or done again as a whole.
"""

import pickle
import threading
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tailrace.errors import TailraceError, UsageError
from tailrace.events.cluster_time import in_words
from tailrace.lake.commit import commit
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history import checkpoint
from tailrace.pipeline.history.failure import Failure, from_exception
from tailrace.pipeline.history.interval import BuiltPart
from tailrace.pipeline.history.log import COMPONENT, Log, NoLog
from tailrace.pipeline.history.progress import Progress
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.history.upkeep import Upkeep
from tailrace.sources.source import OplogSource
from tailrace.spark.history_source import FORMAT, BatchPlan, BatchSource
from tailrace.spark.session import LIGHT_JAVA, build_session

_LOOK_SECONDS: Final = 0.1
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_MOST_ATTEMPTS: Final = 10
"""in a row without any progress, unless it is the source that is missing"""


class PipelineError(TailraceError):
    """The pipeline ended, and trying again does not help: one sentence with cause and remedy."""


class HistoryJob:
    """Builds one history from one source; `run` returns when it is over."""

    def __init__(self, source: OplogSource, settings: PipelineSettings, log: Log | None = None) -> None:
        """Open the table, or create it; raises `UsageError` if it belongs to something else."""
        self._source = source
        self._settings = settings
        self._log = log or NoLog()
        self._failure_in_commit: Failure | None = None
        self.table = open_table(source, settings)
        self.progress = Progress(self._log, through=self.table.through)

    def run(self, spark: SparkSession, ending: threading.Event | None = None) -> Progress:
        """Run until everything is done (without an interval) or until ``ending`` is set.

        What passes by itself, such as a source that cannot be reached for a while, is waited for.
        """
        ending = ending or threading.Event()
        upkeep = Upkeep(self._settings, self._log)
        pause = _FIRST_PAUSE
        attempts = 0
        upkeep.start()
        try:
            while not ending.is_set():
                batches = self.progress.batches
                failure = self._run_query(spark, ending)
                if failure is None:
                    break
                if self.progress.batches > batches:
                    pause, attempts = _FIRST_PAUSE, 0
                attempts += 1
                if not failure.may_pass or (attempts > _MOST_ATTEMPTS and not failure.is_outside):
                    raise PipelineError(failure.sentence)
                self._log.warning(COMPONENT, "Trying again", reason=failure.sentence, pauseSeconds=pause)
                ending.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            upkeep.stop()
        if not ending.is_set():
            upkeep.finish()
        self.progress.summary()
        return self.progress

    def _run_query(self, spark: SparkSession, ending: threading.Event) -> Failure | None:
        """One query from its start to its end; None if it ended because it was to."""
        self._failure_in_commit = None
        try:
            query = self.start(spark)
        except (PySparkException, Py4JJavaError, TailraceError) as error:
            # Java's own exceptions come as they are where a worker died while the query was put together.
            return from_exception(error)
        try:
            while query.isActive and not ending.wait(_LOOK_SECONDS):
                pass
            if query.isActive:
                query.stop()
            end = query.exception()
        except (Py4JError, OSError):
            raise PipelineError("the Java process of Spark has ended; start the pipeline again") from None
        if end is None or ending.is_set():
            return None
        return self._reason(end)

    def _reason(self, end: Exception) -> Failure:
        """Spark shows the end of a query as text; an exception of the driver's own part says more."""
        failure = self._failure_in_commit
        return from_exception(end) if failure is None else failure

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query where the table ends."""
        spark.dataSource.register(BatchSource)
        self.table.refresh()
        held = self.table.through
        if not checkpoint.settle(self._settings.checkpoint, held):
            self._log.warning(COMPONENT, "The checkpoint was damaged and is made anew", through=held)
        plan = BatchPlan(self._source, self._settings, held, spark.sparkContext.defaultParallelism)
        interval = self._settings.interval
        writer = (
            spark.readStream.format(FORMAT)
            .options(**plan.to_option())
            .load()
            .writeStream.queryName(f"tailrace history {self._settings.history}")
            .option("checkpointLocation", str(self._settings.checkpoint))
            .foreachBatch(self._commit)
        )
        if interval is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds")
        return writer.start()

    def _commit(self, frame: DataFrame, _number: int) -> None:
        """Run the tasks of a batch, then make their files part of the table."""
        try:
            parts = [pickle.loads(row.part) for row in frame.collect()]
            if not parts:  # a batch that the table held already
                return
            batch = parts[0].batch
            files = [file for part in in_order(parts) for file in part.files]
            if commit(self.table, files, after=batch.after, through=batch.through):
                rows = sum(file.rows for file in files)
                self.progress.committed(rows, through=batch.through, promised=parts[0].promised)
        except Exception as error:
            self._failure_in_commit = from_exception(error)
            raise


def start_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """A session for a pipeline that runs as a program of its own; one sentence if Spark does not start."""
    if master is not None and master.startswith("local"):
        conf = {**LIGHT_JAVA, **conf}  # rows never get to Java
    try:
        return build_session(master, "tailrace pipeline", conf)
    except (PySparkException, Py4JError) as error:
        said = next((line for line in str(error).splitlines() if "Exception: " in line), str(error))
        reason = said.rpartition("Exception: ")[2]
        raise PipelineError(
            f"Spark could not be started: {reason}; check --master and --spark-conf"
        ) from None


def in_order(parts: Sequence[BuiltPart]) -> list[BuiltPart]:
    """The parts of a batch by time; they have to cover it without a gap."""
    ordered = sorted(parts, key=lambda part: part.interval.after)
    batch = ordered[0].batch
    covers = ordered[0].interval.after == batch.after and ordered[-1].interval.through == batch.through
    joined = all(left.interval.through == right.interval.after for left, right in pairwise(ordered))
    if not covers or not joined or any(part.batch != batch for part in ordered):
        raise PipelineError(
            f"the tasks of the batch {batch.name} did not cover it; this is a fault in Tailrace"
        )
    return ordered


def open_table(source: OplogSource, settings: PipelineSettings) -> HistoryTable:
    """The history of a source, made if it is not there."""
    path = settings.history
    source.remember(checkpoint.shards_before(settings.checkpoint))
    identity, oldest = source.identity(), source.oldest()
    if not HistoryTable.exists(path):
        return HistoryTable.create(path, identity=identity, begins=max(oldest - 1, 0))
    table = HistoryTable.open(path)
    table.check_identity(identity)
    if oldest - 1 > table.through:
        raise UsageError(
            f"the history {path} ends with {in_words(table.through)} and the oplog of the source begins with "
            f"{in_words(oldest)}: what lies between is lost; name another directory for a history that "
            "begins now"
        )
    return table
