"""The pipeline builds a history that equals the stream, and continues where the table ends."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pyspark.sql import SparkSession

from tailrace.errors import UsageError
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.history_job import HistoryJob
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.pipeline_runs import build_all, events_of, holds, newest_time, running, streamed
from tests.support.bulk import generate_bulk
from tests.support.spans import traces_in_memory

Client = MongoClient[dict[str, Any]]


def write(client: Client, first: int, count: int) -> Timestamp:
    """Plain writes, a batch, a transaction, DDL; return the time after them."""
    shop = client.shop
    orders = shop[f"orders{first}"]
    shop.create_collection(orders.name, changeStreamPreAndPostImages={"enabled": True})
    orders.insert_many([{"_id": number, "qty": 1} for number in range(first, first + count)])
    for number in range(first, first + count, 7):
        orders.update_one({"_id": number}, {"$inc": {"qty": number}, "$set": {"note.text": "x"}})
    orders.delete_one({"_id": first})
    with client.start_session() as session, session.start_transaction():
        orders.insert_one({"_id": f"t{first}"}, session=session)
        shop.ledger.insert_one({"_id": f"t{first}"}, session=session)
    orders.create_index("qty")
    orders.rename(f"old{first}")
    return newest_time(client)


def test_live_history_equals_the_stream_over_restarts_and_lost_checkpoints(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    with ReplicaSet() as rs, DeploymentSource(rs.uri) as source:
        client = rs.client()
        write(client, 0, 50)
        with running(spark, source, history) as job:
            assert holds(history, write(client, 100, 50))
            assert holds(history, write(client, 200, 50))
        assert job.job.progress.rows == HistoryTable.open(history).rows
        assert job.job.progress.lag_seconds == 0
        older = tmp_path / "older"
        shutil.copytree(history / "_checkpoint", older)
        write(client, 300, 50)
        build_all(spark, source, history, max_entries=60)  # many batches
        shutil.rmtree(history / "_checkpoint")
        shutil.copytree(older, history / "_checkpoint")  # as if only this was restored from a backup
        write(client, 400, 50)
        build_all(spark, source, history)
        shutil.rmtree(history / "_checkpoint")
        newest = max((older / "offsets").iterdir(), key=lambda path: int(path.name))
        newest.write_text("v1\n")  # as after a power failure
        shutil.copytree(older, history / "_checkpoint")
        end = write(client, 500, 50)
        table = build_all(spark, source, history)
        assert events_of(history) == streamed(client, end)
        assert table.begins == 0
        for left, right in zip(table.files, table.files[1:], strict=False):
            assert left.last_token < right.first_token
            assert left.last_time < right.first_time


def test_a_checkpoint_or_history_that_does_not_match_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    history, other = tmp_path / "history", tmp_path / "other"
    with ReplicaSet() as rs, DeploymentSource(rs.uri) as source:
        client = rs.client()
        write(client, 0, 10)
        build_all(spark, source, history)
        shutil.copytree(history, other)
        write(client, 100, 10)
        build_all(spark, source, history)
        shutil.rmtree(other / "_checkpoint")
        shutil.copytree(history / "_checkpoint", other / "_checkpoint")
        with pytest.raises(Exception, match="the checkpoint and the history disagree"):
            build_all(spark, source, other)
        assert HistoryJob(source, PipelineSettings(tmp_path / "empty")).table.begins == 0
        rs.truncate_oplog()
        with pytest.raises(UsageError, match="the entries between are lost; name another directory"):
            HistoryJob(source, PipelineSettings(other))
        late = HistoryJob(source, PipelineSettings(tmp_path / "late")).table
        assert late.begins > 0
        write(client, 200, 10)
        empty = build_all(spark, source, tmp_path / "empty")
        assert (empty.begins, empty.rows) == (late.begins, 20)
    with (
        ReplicaSet() as stranger,
        DeploymentSource(stranger.uri) as source,
        pytest.raises(UsageError, match=r"belongs to .*, not to .*; name another folder"),
    ):
        HistoryJob(source, PipelineSettings(history))


def test_the_history_does_not_depend_on_batches_and_partitions(spark: SparkSession, tmp_path: Path) -> None:
    shards = {}
    entries = list(generate_bulk(7, 6000))
    for number in range(3):
        path = tmp_path / f"shard{number}.bson"
        path.write_bytes(b"".join(entries[number::3]))
        shards[f"s{number}"] = [str(path)]
    source = FilesSource(shards)
    whole = build_all(spark, source, tmp_path / "whole")
    assert len(whole.files) == 1
    traces, spans = traces_in_memory()
    few = build_all(spark, source, tmp_path / "few", traces, max_entries=1500, small_entries=100)
    # The files are merged at the end of the job.
    assert len(list((tmp_path / "few").glob("*.parquet"))) > 4
    assert events_of(tmp_path / "few") == events_of(tmp_path / "whole")
    assert few.rows == whole.rows > 6000
    batches = [dict(span.attributes or {}) for span in spans.get_finished_spans() if span.name == "batch"]
    assert len(batches) > 1
    assert sum(int(str(batch["tailrace.rows"])) for batch in batches) == few.rows
    assert few.through == whole.through
