"""The cause of a failed query is found by the class of the exception, in the driver and in tasks."""

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.errors import DamagedInputError, PipelineError, SourceUnavailableError
from tailrace.pipeline.failure import failure_of, reported_error
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.history_job import HistoryJob
from tests.mongod.server.served import served
from tests.spark.pipeline_runs import RunningJob, holds, newest_time, wait_until, warnings_of_pipelines
from tests.support.bulk import generate_bulk


def test_a_pipeline_waits_for_a_source_that_does_not_answer(spark: SparkSession, tmp_path: Path) -> None:
    history = tmp_path / "history"
    with served(tmp_path, "--log-level", "error") as process:
        uri = process.uri + "&serverSelectionTimeoutMS=300"
        with DeploymentSource(uri) as source, warnings_of_pipelines() as log:
            job = RunningJob(spark, HistoryJob(source, PipelineSettings(history)))
            job.start()
            try:
                process.kill()
                wait_until(lambda: any("cannot be reached" in reason for reason in log.reasons))
                process.start()
                with process.client() as client:
                    client.shop.orders.insert_one({"_id": 1})
                    assert holds(history, newest_time(client))
            finally:
                job.end()
    assert job.error is None


def test_the_words_of_an_error_do_not_make_it_temporary(spark: SparkSession, tmp_path: Path) -> None:
    """The path of a damaged file contains the words of the error of an unreachable source."""
    oplog = tmp_path / "this cannot be reached: x.bson"
    entries = list(generate_bulk(3, 200))
    oplog.write_bytes(b"".join(entries[:100]) + entries[100][:-9] + b"?" * 9 + b"".join(entries[101:]))
    job = HistoryJob(FilesSource({"": [str(oplog)]}), PipelineSettings(tmp_path / "history", interval=None))
    with (
        warnings_of_pipelines() as log,
        pytest.raises(PipelineError, match=r"cannot be reached: x\.bson is damaged"),
    ):
        job.run(spark)
    assert not log.messages


def test_an_error_of_a_task_has_its_class_in_the_driver(spark: SparkSession) -> None:
    def fail(number: int) -> int:
        if number:
            raise SourceUnavailableError("nobody answers")
        raise DamagedInputError("oplog.bson", 7, "an end is missing")

    for number, kind in enumerate((DamagedInputError, SourceUnavailableError)):
        with pytest.raises(PySparkException) as failed:
            spark.createDataFrame([(number,)], "n INT").rdd.map(lambda row: fail(row.n)).collect()
        reported = reported_error(failed.value)
        assert reported is not None
        assert reported.kind is kind
        assert failure_of(failed.value).is_source_away is (kind is SourceUnavailableError)
