"""The pipeline as a job: one streaming query, whose batches the driver commits to the history.

Exactly once follows from three facts. The same interval of the same oplogs gives the same rows, in files of
the same names. The table takes an interval only if it begins where the table ends, in one commit together
with the new end. And the table, not Spark's checkpoint, decides where a query begins. So a batch that was
interrupted anywhere is either held as a whole or built again as a whole.
"""

import logging
import pickle
import threading
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tailrace.errors import PipelineError, TailraceError
from tailrace.lake.commit import commit
from tailrace.log_lines import fields
from tailrace.pipeline.failure import Failure, failure_of
from tailrace.pipeline.history.batches import BatchPlan, BuiltPiece, in_order
from tailrace.pipeline.history.checkpoint import open_table, settle
from tailrace.pipeline.history.progress import Progress
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.history.timeline import check_timeline
from tailrace.pipeline.history.upkeep import Upkeep
from tailrace.pipeline.store_file import private_store_file
from tailrace.sources.source import OplogSource
from tailrace.spark.history_source import FORMAT, BatchSource
from tailrace.spark.merging import SparkMerge, merging_tasks

_LOG: Final = logging.getLogger("tailrace.pipeline")
_POLL_SECONDS: Final = 0.1
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

    def run(self, spark: SparkSession, ending: threading.Event | None = None) -> Progress:
        """Run until everything is done (without an interval) or until ``ending`` is set.

        A query that ends by a failure that may pass, such as a source that does not answer, is started again.
        """
        ending = ending or threading.Event()
        upkeep = self._upkeep(spark)
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

    def _upkeep(self, spark: SparkSession) -> Upkeep:
        tasks = merging_tasks(spark.sparkContext.defaultParallelism)
        if not tasks:
            return Upkeep(self._settings)
        return Upkeep(self._settings, SparkMerge(spark, tasks), most_cold=tasks)

    def _run_query(self, spark: SparkSession, ending: threading.Event) -> Failure | None:
        """Run one query to its end; None if it was to end."""
        self._failure_in_commit = None
        try:
            query = self.start(spark)
        except (PySparkException, Py4JJavaError, TailraceError) as error:
            # PySpark does not convert Java's exception if a worker dies while the query is being built.
            return failure_of(error)
        try:
            while query.isActive and not ending.wait(_POLL_SECONDS):
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
        """Prefer the driver's own exception: it says more than the text that Spark makes of it."""
        failure = self._failure_in_commit
        return failure_of(end) if failure is None else failure

    def start(self, spark: SparkSession) -> StreamingQuery:
        """Start the query where the table ends."""
        spark.dataSource.register(BatchSource)
        self.table.refresh()
        held = self.table.through
        if not settle(self._settings.checkpoint, held):
            _LOG.warning("The checkpoint was damaged and is created again", extra=fields(through=held))
        plan = BatchPlan(
            self._source,
            self._settings,
            held,
            spark.sparkContext.defaultParallelism,
            private_store_file(self._settings.history),
        )
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
            check_timeline(self._source, self.table)
            built: list[BuiltPiece] = [pickle.loads(row.built) for row in frame.collect()]
            if not built:  # the table held the batch already
                return
            ordered = in_order(built)
            files = [file for done in ordered for file in done.files]
            newest = {shard: mark for done in ordered for shard, mark in done.newest.items()}
            piece = built[0].piece
            after, through = piece.batch.after, piece.batch.through
            if commit(
                self.table, files, after=after, through=through, newest=newest, shards=piece.membership
            ):
                rows = sum(file.rows for file in files)
                self.progress.committed(rows, through=piece.batch.through, promised=piece.promised)
        except Exception as error:
            self._failure_in_commit = failure_of(error)
            # Spark searches the text with a pattern that recurses: a stack trace of Java overflows its stack.
            raise PipelineError(self._failure_in_commit.sentence) from None
