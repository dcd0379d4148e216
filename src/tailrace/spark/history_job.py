"""The pipeline as a job: one streaming query, whose batches the driver commits to the history.

On Spark Connect the driver is a server, and Spark calls the sink of `history_sink.py` there.

Exactly once follows from three facts. The same interval of the same oplogs gives the same rows, in files of
the same names. The table takes an interval only if it begins where the table ends, in one commit together
with the new end. And the table, not Spark's checkpoint, decides where a query begins. So a batch that was
interrupted anywhere is either held as a whole or built again as a whole.
"""

import logging
import pickle
import threading
import time
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tailrace.errors import PipelineError, TailraceError
from tailrace.log_lines import fields
from tailrace.pipeline.failure import Failure, failure_of
from tailrace.pipeline.history.batches import BatchPlan, BuiltPiece
from tailrace.pipeline.history.checkpoint import open_table, settle
from tailrace.pipeline.history.committing import commit_pieces
from tailrace.pipeline.history.progress import Progress
from tailrace.pipeline.history.settings import PipelineSettings, checkpoint_name
from tailrace.pipeline.history.timeline import check_timeline
from tailrace.pipeline.history.upkeep import Upkeep
from tailrace.pipeline.options.history_options import HISTORY
from tailrace.pipeline.store_file import private_store_file
from tailrace.sources.source import OplogSource
from tailrace.spark.connections import Py4JError, Py4JJavaError, cores_of, is_connect
from tailrace.spark.history_source import FORMAT, BatchSource
from tailrace.spark.remote_progress import RemoteProgress
from tailrace.spark.task_runs import SparkMerge, merging_tasks
from tailrace.traces import Traces

_LOG: Final = logging.getLogger("tailrace.pipeline")
_POLL_SECONDS: Final = 0.1
_REMOTE_SECONDS: Final = 0.5
_CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"
"""A folder for the checkpoints of all queries of a server of Spark Connect"""
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_MOST_ATTEMPTS: Final = 10
"""In a row without any progress; while the source does not answer there is no limit."""


class HistoryJob:
    """Builds one history from one source."""

    def __init__(self, source: OplogSource, settings: PipelineSettings) -> None:
        """Open or create the table; raises `UsageError` if it belongs to another source."""
        self._source = source
        self._settings = settings
        self._failure_in_commit: Failure | None = None
        self.table = open_table(source, settings)
        self.progress = Progress(self.table.through)
        self.traces: Traces | None = None
        """Where a span of each batch goes, unless a server of Spark Connect commits it."""

    def run(self, spark: SparkSession, ending: threading.Event | None = None) -> Progress:
        """Run until everything is done (without an interval) or until ``ending`` is set.

        A query that ends by a failure that may pass, such as a source that does not answer, is started again.
        """
        ending = ending or threading.Event()
        cores = cores_of(spark)
        upkeep = self._upkeep(spark, cores)
        pause = _FIRST_PAUSE
        attempts = 0
        upkeep.start()
        try:
            while not ending.is_set():
                batches = self.progress.batches
                failure = self._run_query(spark, cores, ending)
                if failure is None or ending.is_set():  # a signal to end may have ended Java, too
                    break
                if self.progress.batches > batches:
                    pause, attempts = _FIRST_PAUSE, 0
                attempts += 1
                if not failure.is_retryable or (attempts > _MOST_ATTEMPTS and not failure.is_source_away):
                    raise failure.error()
                _LOG.warning("Trying again", extra=fields(reason=failure.sentence, pauseSeconds=pause))
                ending.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        finally:
            upkeep.stop()
        if not ending.is_set():
            upkeep.finish()
        self.progress.log_summary()
        return self.progress

    def _upkeep(self, spark: SparkSession, cores: int) -> Upkeep:
        tasks = merging_tasks(cores)
        if not tasks:
            return Upkeep(self._settings)
        return Upkeep(self._settings, SparkMerge(spark, tasks), most_cold=tasks)

    def _run_query(self, spark: SparkSession, cores: int, ending: threading.Event) -> Failure | None:
        """Run one query to its end; None if it was to end."""
        self._failure_in_commit = None
        try:
            query = self.start(spark, cores)
        except (PySparkException, Py4JJavaError, TailraceError) as error:
            # PySpark does not convert Java's exception if a worker dies while the query is being built.
            return failure_of(error)
        except (Py4JError, OSError):
            _accept_end_of_java(ending)
            return None
        watch = RemoteProgress(query, self.table, self.progress) if is_connect(spark) else None
        try:
            while query.isActive and not ending.wait(_POLL_SECONDS if watch is None else _REMOTE_SECONDS):
                if watch is not None:
                    watch.look()
            if query.isActive:
                query.stop()
            end = query.exception()
            if watch is not None:
                watch.look()
        except (Py4JError, OSError):
            _accept_end_of_java(ending)
            return None
        except PySparkException as error:
            return failure_of(error)
        if end is None or ending.is_set():
            return None
        return self._reason(end)

    def _reason(self, end: Exception) -> Failure:
        """Prefer the driver's own exception: it says more than the text that Spark makes of it."""
        failure = self._failure_in_commit
        return failure_of(end) if failure is None else failure

    def start(self, spark: SparkSession, cores: int) -> StreamingQuery:
        """Start the query where the table ends."""
        spark.dataSource.register(BatchSource)
        self.table.refresh()
        held = self.table.through
        # On Spark Connect these files would have to be on the server's disk, and so is its checkpoint.
        store_file = None if is_connect(spark) else private_store_file(self._settings.history)
        kept = self.table.kept.now
        plan = BatchPlan(self._source, self._settings, held, cores, kept, store_file)
        rows = spark.readStream.format(FORMAT).options(**plan.to_option()).load()
        writer = rows.writeStream.queryName(f"tailrace history {self._settings.history}")
        if is_connect(spark):
            writer = self._remote(spark, writer)
        else:
            if not settle(self._settings.checkpoint, held):
                _LOG.warning("The checkpoint was damaged and is created again", extra=fields(through=held))
            location = str(self._settings.checkpoint)
            writer = writer.option("checkpointLocation", location).foreachBatch(self._commit)
        interval = self._settings.interval
        if interval is None:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{round(interval * 1000)} milliseconds")
        return writer.start()

    def _remote(self, spark: SparkSession, writer: DataStreamWriter) -> DataStreamWriter:
        """The server commits, by the sink; a checkpoint that does not fit is noticed there."""
        history = str(self._settings.history)
        folder = spark.conf.get(_CHECKPOINTS, None)
        own = str(self._settings.checkpoint)
        location = own if folder is None else f"{folder}/{checkpoint_name(history)}"
        return writer.format(FORMAT).option(HISTORY, history).option("checkpointLocation", location)

    def _commit(self, frame: DataFrame, _number: int) -> None:
        """Run the tasks of a batch, then make their files part of the table."""
        began = time.monotonic()
        try:
            check_timeline(self._source, self.table)
            built: list[BuiltPiece] = [pickle.loads(row.built) for row in frame.collect()]
            rows = commit_pieces(self.table, built)
            if rows is not None:
                piece = built[0].piece
                self.progress.committed(rows, through=piece.batch.through, promised=piece.promised)
                if self.traces is not None:
                    lag = self.progress.lag_seconds
                    self.traces.add("batch", began, {"tailrace.rows": rows, "tailrace.lag_seconds": lag})
        except Exception as error:
            self._failure_in_commit = failure_of(error)
            # Spark searches the text with a pattern that recurses: a stack trace of Java overflows its stack.
            raise PipelineError(self._failure_in_commit.sentence) from None


def _accept_end_of_java(ending: threading.Event) -> None:
    """Raise `PipelineError`, unless Java got the signal to end, too, as systemd sends it."""
    if not ending.is_set():
        raise PipelineError("the Java process of Spark has ended; start the pipeline again") from None
