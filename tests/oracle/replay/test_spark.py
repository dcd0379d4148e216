"""Spark's streams of a real deployment, its history and its archived oplog have the bytes of its own."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tailrace.bson import documents as bsondocs
from tailrace.bson.extjson import dumps_canonical
from tailrace.errors import CommandError
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.spark.dataframes import change_stream, stream_error
from tests.oracle.real_server import RealReplicaSet
from tests.oracle.replay.law import Outcome, Record, difference, recorded
from tests.oracle.replay.real_streams import ON_A_VIEW
from tests.oracle.replay.replayed import lines_by_spark
from tests.oracle.replay.stream_case import StreamCase
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import RELEASE
from tests.spark.pipeline_runs import build_all

OPERATIONS = 60
STREAMS = 6


@pytest.fixture(scope="module", params=SEEDS)
def record(
    request: pytest.FixtureRequest, real_set: RealReplicaSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Record]:
    print("seed", request.param)
    with real_set.client() as client:
        yield recorded(client, request.param, tmp_path_factory.mktemp("record"), OPERATIONS)


def _json(document: Any) -> str:
    return dumps_canonical(bsondocs.encode(dict(document)))


class SparkStreams:
    """Streams of one source on Spark; a stream that fails has no rows."""

    def __init__(self, spark: SparkSession, record: Record, source: Any, **options: str) -> None:
        self._spark = spark
        self._source = source
        self._options = {"endingOffsets": f"{record.streams.end.time}:{record.streams.end.inc}", **options}

    def __call__(self, case: StreamCase) -> Outcome:
        options: dict[str, Any] = dict(self._options)
        for name, value in (("collation", case.collation), ("let", case.let)):
            if value is not None:
                options[name] = _json(value)
        try:
            frame = change_stream(
                self._spark,
                self._source,
                case.namespace,
                case.options,
                case.pipeline,
                output="event",
                documentsAs="bson",
                partitions=3,
                **options,
            )
            return [bytes(row.event) for row in frame.select("event").collect()], None
        except CommandError as error:  # of the options or the pipeline: raised before Spark runs
            return [], error.code
        except PySparkException as error:
            found = stream_error(error)
            if found is None:
                raise
            return [], found.code


def check(record: Record, cases: Sequence[StreamCase], streams: SparkStreams) -> None:
    """Require equal streams; of one that fails the code."""
    different = []
    compared = 0
    for case in cases:
        real = record.streams.read(case)
        if real.error == ON_A_VIEW:
            continue
        compared += 1
        events, code = streams(case)
        if real.error is not None and code == real.error:
            continue
        found = difference(case, real, (events, code))
        if found is not None:
            different.append(found)
    assert compared
    assert not different, "\n".join(different)[:20_000]


def some_cases(record: Record, salt: int) -> list[StreamCase]:
    rng = random.Random(record.seed * 31 + salt)
    return rng.sample(record.written(), STREAMS) + record.drawn(STREAMS)


def test_streams_of_the_deployment(record: Record, real_set: RealReplicaSet, spark: SparkSession) -> None:
    check(record, some_cases(record, 1), SparkStreams(spark, record, real_set.uri))


def test_streams_of_the_history(
    record: Record, real_set: RealReplicaSet, spark: SparkSession, tmp_path: Path
) -> None:
    history = tmp_path / "history"
    with DeploymentSource(real_set.uri) as source:
        build_all(spark, source, history)
    cases = [
        case for case in some_cases(record, 2) if case.options.get("fullDocument") != "updateLookup"
    ]  # a history has no current documents
    check(record, cases, SparkStreams(spark, record, str(history)))


def test_streams_of_the_archive(record: Record, spark: SparkSession) -> None:
    archive = record.archive
    documents = {name: str(path) for name, path in archive.documents.items()}
    streams = SparkStreams(
        spark,
        record,
        str(archive.oplog),
        preImages=str(archive.pre_images),
        documents=_json(documents),
        serverVersion=RELEASE,
    )
    check(record, some_cases(record, 3), streams)


@pytest.mark.slow  # and in `make oracle`
@pytest.mark.usefixtures("java")
def test_the_command_on_spark(record: Record, tmp_path: Path) -> None:
    cases = record.written()
    random.Random(record.seed).shuffle(cases)
    case = next(case for case in cases if record.streams.read(case).error != ON_A_VIEW)
    real = record.streams.read(case)
    lines, code = lines_by_spark(record.archive, case, tmp_path / "events.jsonl")
    assert (lines, code) == ([dumps_canonical(raw) for raw in real.events], real.error), case
