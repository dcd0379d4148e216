"""The pipeline as a query of the user's own: `tailrace.pipeline` is its source and its sink."""

import pickle
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from tailrace.errors import HistoryError, UsageError
from tailrace.lake.table import HistoryTable
from tailrace.spark.history_sink import BatchWriter
from tailrace.spark.history_source import BatchReader, BatchSource
from tests.spark.test_object_store import data_files
from tests.support.bulk import generate_bulk

SCHEMA = StructType().add("history", StringType()).add("rows", LongType()).add("built", BinaryType())


@pytest.fixture
def oplog(tmp_path: Path) -> str:
    path = tmp_path / "oplog.bson"
    path.write_bytes(b"".join(generate_bulk(3, 1500)))
    return str(path)


def options(oplog: str, history: Path) -> dict[str, str]:
    return {"path": oplog, "history": str(history), "maxEntriesPerTrigger": "600"}


def sink(history: Path) -> BatchWriter:
    writer = BatchSource({"history": str(history)}).streamWriter(SCHEMA, overwrite=False)
    assert isinstance(writer, BatchWriter)
    return writer


def built_here(oplog: str, history: Path) -> list[list[Row]]:
    """What the tasks of each batch report, without Spark; nothing is committed."""
    reader = BatchSource(options(oplog, history)).streamReader(SCHEMA)
    assert isinstance(reader, BatchReader)
    task: BatchReader = pickle.loads(pickle.dumps(reader))
    batches = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, ReadAllAvailable())) != start:
        done = [row for piece in reader.partitions(start, end) for row in task.read(piece)]
        batches.append([Row(history=place, rows=rows, built=built) for place, rows, built in done])
        start = end
    reader.stop()
    return batches


def test_a_query_commits_each_batch_once_also_if_spark_repeats_it(
    spark: SparkSession, oplog: str, tmp_path: Path
) -> None:
    history, checkpoint = tmp_path / "history", tmp_path / "checkpoint"

    def run() -> None:
        rows = spark.readStream.format("tailrace.pipeline").options(**options(oplog, history)).load()
        writer = rows.writeStream.format("tailrace.pipeline").option("history", str(history))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    expected = built_here(oplog, tmp_path / "here")
    table = HistoryTable.open(history)
    assert data_files(history) == data_files(tmp_path / "here")
    assert len(expected) == 3
    assert table.rows == sum(row.rows for rows in expected for row in rows)
    # Spark died before it stored that its last batch was committed.
    newest = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    run()
    assert newest.exists()
    assert HistoryTable.open(history).rows == table.rows
    assert data_files(history) == data_files(tmp_path / "here")


def test_the_table_takes_an_interval_once_from_any_of_several_sinks(oplog: str, tmp_path: Path) -> None:
    history = tmp_path / "history"
    first, second, *_ = built_here(oplog, history)
    one, other = sink(history), sink(history)
    with pytest.raises(HistoryError, match="the checkpoint and the history disagree"):
        other.commit([one.write(iter(second))], 1)
    for writer in (one, other, one):
        writer.commit([writer.write(iter(first)), None], 0)
    one.commit([one.write(iter(second))], 1)
    other.commit([other.write(iter(first))], 0)
    other.commit([other.write(iter(()))], 2)
    table = HistoryTable.open(history)
    assert table.rows == sum(row.rows for row in (*first, *second)) > 1200


def test_what_a_query_of_the_pipeline_cannot_be_is_refused(oplog: str, tmp_path: Path) -> None:
    history = str(tmp_path / "history")
    wrong = {
        "name the history": {"path": oplog},
        "name one source": {"history": history},
        "tailrace.pipeline has no option 'database'": {"path": oplog, "history": history, "database": "shop"},
        "a history cannot be in hdfs://": {"path": oplog, "history": "hdfs://host/folder"},
    }
    for sentence, given in wrong.items():
        with pytest.raises(UsageError, match=sentence):
            BatchSource(given).schema()
    with pytest.raises(UsageError, match="has no option 'path'"):
        BatchSource({"path": oplog}).streamWriter(SCHEMA, overwrite=False)
    with pytest.raises(UsageError, match="takes the rows of readStream"):
        BatchSource({"history": history}).streamWriter(StructType().add("a", LongType()), overwrite=False)
    with pytest.raises(UsageError, match="give both the same option history"):
        sink(tmp_path / "another").write(iter([Row(history=history, rows=1, built=b"")]))
