"""``format("tailrace.oplog")``: batch and streaming queries, filters, limits, errors."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bson import Timestamp

from tailrace.events.cluster_time import from_timestamp
from tailrace.spark import register
from tailrace.testing.replica_set import ReplicaSet
from tests.spark.frames import micro_batches
from tests.support.bulk import generate_bulk
from tests.support.history import dump, timestamp_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader

SHARDS = {"a": 600, "b": 400}


@pytest.fixture(scope="module")
def oplogs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    return {name: list(generate_bulk(count, count)) for name, count in SHARDS.items()}


@pytest.fixture(scope="module")
def option(oplogs: dict[str, list[bytes]], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("oplogs")
    for name, entries in oplogs.items():
        (folder / f"{name}.bson").write_bytes(dump(entries))
    return json.dumps({name: str(folder / f"{name}.bson") for name in oplogs})


@pytest.fixture(scope="module")
def session(spark: "SparkSession") -> "SparkSession":
    register(spark)
    return spark


def offsets(**times: int) -> str:
    return json.dumps({
        "version": 1,
        "shards": {name: [time >> 32, time & 0xFFFFFFFF] for name, time in times.items()},
    })  # fmt: skip


def entries_of(frame: "DataFrame") -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for row in frame.select("shard", "cluster_time", "entry").collect():
        assert row.cluster_time == timestamp_of(bytes(row.entry))
        found.setdefault(row.shard, []).append(bytes(row.entry))
    return found


def test_batch_queries(session: "SparkSession", oplogs: dict[str, list[bytes]], option: str) -> None:
    def load(**options: Any) -> "DataFrame":
        return session.read.format("tailrace.oplog").options(oplogs=option, **options).load()

    cut = load(partitions=3)
    assert cut.rdd.getNumPartitions() == 6
    assert entries_of(cut) == oplogs
    first = timestamp_of(oplogs["a"][0])
    chosen = load(
        startingOffsets=offsets(a=first + 9, b=first + 99), endingOffsets=offsets(a=first + 19, b=first)
    )
    assert entries_of(chosen) == {"a": oplogs["a"][10:20]}
    row = load(startingTimestamp=str((first >> 32) * 1000)).where("op = 'i'").first()
    assert row is not None
    assert (row.shard, row.ns, row.term, row.op) == ("a", "shop.orders", 1, "i")
    assert row.ui == "00000000-0000-0000-0001-020304050607"
    assert row.seconds << 32 | row.increment == row.cluster_time


def test_filters_reach_the_source(
    session: "SparkSession", oplogs: dict[str, list[bytes]], option: str
) -> None:
    frame = session.read.format("tailrace.oplog").options(oplogs=option).load()
    time = timestamp_of(oplogs["a"][300])
    pushed = frame.where(
        f"shard = 'a' and op in ('c', 'd') and ns = 'admin.$cmd' and cluster_time > {time} and seconds > 0"
    )
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    assert "Filter" not in plan.replace("RuntimeFilters", "")
    expected = [raw for raw in oplogs["a"] if b"applyOps" in raw and timestamp_of(raw) > time]
    assert entries_of(pushed) == {"a": expected}
    # Spark evaluates the conditions that the source cannot.
    assert frame.where("op = 'i' and shard = 'c' and length(ns) < 3").count() == 0


def run_available(reader: "DataStreamReader", checkpoint: Path) -> list[dict[str, list[bytes]]]:
    """Return the entries of each micro-batch, by shard."""
    return micro_batches(reader.load(), checkpoint, entries_of)


def joined(batches: list[dict[str, list[bytes]]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for batch in batches:
        for shard, entries in batch.items():
            found.setdefault(shard, []).extend(entries)
    return found


def test_a_limited_stream_reads_every_entry_once_in_small_batches(
    session: "SparkSession", oplogs: dict[str, list[bytes]], option: str, tmp_path: Path
) -> None:
    reader = session.readStream.format("tailrace.oplog").options(
        oplogs=option, startingOffsets="earliest", maxEntriesPerTrigger=300, maxBytesPerTrigger=80_000
    )
    batches = run_available(reader, tmp_path / "checkpoint")
    assert joined(batches) == oplogs
    assert len(batches) > 3
    for batch in batches:
        entries = [raw for shard in batch.values() for raw in shard]
        assert len(entries) <= 300
        assert sum(map(len, entries)) <= 80_000
    again = run_available(reader, tmp_path / "checkpoint")
    assert joined(again) == {}


@pytest.fixture(scope="module")
def deployment() -> Iterator[ReplicaSet]:
    with ReplicaSet() as replica_set:
        yield replica_set


def test_a_stream_of_a_deployment_continues_where_it_stopped(
    session: "SparkSession", deployment: ReplicaSet, tmp_path: Path
) -> None:
    orders = deployment.client().shop.orders
    orders.insert_many([{"_id": number} for number in range(10)])
    reader = session.readStream.format("tailrace.oplog").options(
        uri=deployment.uri, startingOffsets="earliest"
    )
    checkpoint = tmp_path / "checkpoint"
    first = joined(run_available(reader, checkpoint))[""]
    assert is_beginning(first, deployment)
    orders.insert_one({"_id": 10})
    second = joined(run_available(reader, checkpoint))[""]
    assert is_beginning(first + second, deployment)
    assert any(b"\x10_id\0\x0a\0\0\0" in raw for raw in second)
    last = json.loads((checkpoint / "offsets" / "1").read_text().splitlines()[-1])
    time = timestamp_of(second[-1])
    assert last == {"version": 1, "shards": {"": [time >> 32, time & 0xFFFFFFFF]}}


def is_beginning(entries: list[bytes], deployment: ReplicaSet) -> bool:
    """Return whether these are the first entries of the oplog: an idle set still writes no-ops."""
    times = [from_timestamp(entry["ts"]) for entry in deployment.oplog()]
    return bool(entries) and [timestamp_of(raw) for raw in entries] == times[: len(entries)]


def test_lost_history_fails_a_query_unless_data_loss_is_allowed(
    session: "SparkSession", deployment: ReplicaSet, tmp_path: Path
) -> None:
    orders = deployment.client().shop.orders
    start = deployment.cluster_time
    orders.insert_many([{} for _ in range(5)])
    orders.insert_one({"_id": "last"})
    deployment.truncate_oplog()
    begin = offsets(**{"": from_timestamp(Timestamp(start.time, start.inc))})
    options = {"uri": deployment.uri, "startingOffsets": begin}
    with pytest.raises(Exception, match="older than the oldest entry of the oplog"):
        session.read.format("tailrace.oplog").options(**options).load().collect()
    batch = session.read.format("tailrace.oplog").options(failOnDataLoss="false", **options).load()
    assert is_beginning(entries_of(batch)[""], deployment)
    stream = session.readStream.format("tailrace.oplog")
    with pytest.raises(Exception, match="older than the oldest entry of the oplog"):
        run_available(stream.options(**options), tmp_path / "strict")
    lenient = run_available(stream.options(failOnDataLoss="false", **options), tmp_path / "lenient")
    assert is_beginning(joined(lenient)[""], deployment)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"uri": "mongodb://x", "startingOffset": "earliest"}, "has no option 'startingOffset'"),
        ({}, "name one source"),
        ({"oplogs": "[]", "uri": "mongodb://x"}, "exclude each other"),
        ({"path": "/nowhere", "maxEntriesPerTrigger": "0"}, "maxEntriesPerTrigger must be a whole number"),
        ({"path": "/nowhere", "startingOffsets": "newest"}, "startingOffsets must be JSON"),
        (
            {"path": "/nowhere", "startingOffsets": '{"version": 2, "shards": {}}'},
            "this release reads version 1",
        ),
        ({"path": "/nowhere", "failOnDataLoss": "perhaps"}, "must be true or false"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, str], sentence: str) -> None:
    from tailrace.errors import UsageError
    from tailrace.spark.oplog_source import OplogDataSource

    with pytest.raises(UsageError) as raised:
        OplogDataSource(options).schema()
    assert sentence in str(raised.value)


def test_options_of_batch_queries_are_refused_for_streams() -> None:
    from tailrace.errors import UsageError
    from tailrace.pipeline.options.oplog_options import read_oplog_options

    with pytest.raises(UsageError, match="endingOffsets is for batch queries"):
        read_oplog_options({"path": "/nowhere", "endingOffsets": "latest"}, streaming=True)
