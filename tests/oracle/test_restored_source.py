"""A deployment that was restored from a backup does not continue the history of what it was before."""

import re
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tailrace.errors import HistoryError, UsageError
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.history_job import HistoryJob
from tests.oracle.changes import Change, changes_in, changes_of
from tests.oracle.real_server import RealReplicaSet, missing_mongod
from tests.spark.pipeline_runs import RunningJob, build_all, holds, newest_time, wait_until

REFUSED = re.compile(
    r"the oplog no longer has the entry of cluster time \(\d+, \d+\), term \d+, up to which the history \S+ "
    r"was built: the deployment was restored from a backup; restore the history of that time, or name another"
)


class Backups:
    """A real replica set of one member whose files can be copied and put back."""

    def __init__(self, folder: Path) -> None:
        self.set = RealReplicaSet(folder / "set")
        self._copy = folder / "copy"

    def make(self) -> None:
        self.set.stop()
        shutil.copytree(self.set.members[0].data, self._copy)
        self.set.start()

    def restore(self) -> None:
        self.set.stop()
        shutil.rmtree(self.set.members[0].data)
        shutil.copytree(self._copy, self.set.members[0].data)
        self.set.start()

    def write(self, *names: str) -> None:
        with self.set.client() as client:
            client.shop.orders.insert_many([{"_id": name} for name in names])


def inserted(changes: list[Change]) -> list[str]:
    return [
        key.removeprefix("{'_id': '").removesuffix("'}")
        for _, operation, key, _ in changes
        if operation == "insert"
    ]


@pytest.mark.slow  # and in `make oracle`
def test_a_restored_source_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    history, older = tmp_path / "history", tmp_path / "older"
    backups = Backups(tmp_path)
    try:
        backups.set.start()
        backups.write("a")
        with DeploymentSource(backups.set.uri + "&serverSelectionTimeoutMS=2000") as source:
            build_all(spark, source, older)
            backups.make()
            backups.write("b", "c")
            job = RunningJob(spark, HistoryJob(source, PipelineSettings(history)))
            job.start()
            try:
                with backups.set.client() as client:
                    assert holds(history, newest_time(client))
                backups.restore()  # while the pipeline runs
                backups.write("d")
                wait_until(lambda: not job.is_alive())
            finally:
                job.end()
            assert isinstance(job.error, UsageError)
            assert REFUSED.search(str(job.error))
            # Neither does a new pipeline continue it, and nothing was added.
            with pytest.raises(HistoryError, match=REFUSED):
                HistoryJob(source, PipelineSettings(history))
            assert "d" not in inserted(changes_in(history))
            # The history of the backup's time continues.
            with backups.set.client() as client:
                end = newest_time(client)
                build_all(spark, source, older)
                assert changes_in(older) == changes_of(client, end)
            assert inserted(changes_in(older)) == ["a", "d"]
    finally:
        backups.set.stop()
