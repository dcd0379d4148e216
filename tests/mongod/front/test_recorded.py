"""Streams made of a source's own change stream, whose oplog is not read, are those of the source."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from tailrace.errors import CommandError, UsageError
from tailrace.pipeline.options.event_options import read_options
from tailrace.pipeline.stream_batches import StreamBatches
from tailrace.sources.recorded.via import Via
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.oracle.replay.law import Record, recorded
from tests.oracle.replay.real_streams import RealStreams
from tests.oracle.replay.stream_case import StreamCase
from tests.oracle.seeds import SEEDS, some
from tests.oracle.test_in_front import compare
from tests.support.fronted import Fronted

OLDER = ("6.0.5", "6.0.27", "7.0.5", "8.0.4")
RELEASES = ["8.2.1", *(pytest.param(release, marks=pytest.mark.slow) for release in OLDER)]
OPERATIONS = 40
WRITTEN, DRAWN = 20, 10


@pytest.fixture(scope="module", params=RELEASES)
def source(request: pytest.FixtureRequest) -> Iterator[ReplicaSet]:
    with ReplicaSet(server_version=request.param, parameters={"writePeriodicNoops": "false"}) as found:
        yield found


@pytest.fixture(scope="module")
def front(source: ReplicaSet) -> Iterator[Fronted]:
    with Fronted(source.uri, via=Via.STREAM) as found:
        yield found


@pytest.fixture(scope="module", params=SEEDS)
def record(
    request: pytest.FixtureRequest,
    source: ReplicaSet,
    front: Fronted,  # its tail delivers the workload
    tmp_path_factory: pytest.TempPathFactory,
) -> Record:
    print("seed", request.param)
    return recorded(source.client(), request.param, tmp_path_factory.mktemp("record"), OPERATIONS)


@pytest.fixture(scope="module")
def served(record: Record, front: Fronted) -> RealStreams:
    return RealStreams(front.client(), record.streams.end)


def test_streams_of_every_shape_are_equal(record: Record, served: RealStreams) -> None:
    cases = [*some(record.written(), WRITTEN), *record.drawn(DRAWN)]
    assert compare(record.streams, served, cases, Via.STREAM) >= WRITTEN + DRAWN


def test_a_tail_that_begins_later_reads_the_rest_from_the_source(record: Record, source: ReplicaSet) -> None:
    with Fronted(source.uri, via=Via.STREAM) as late:
        ours = RealStreams(late.client(), record.streams.end)
        options = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}
        start = {"startAtOperationTime": record.start, "showExpandedEvents": True}
        cases = [StreamCase(options={**options, **start}), StreamCase(record.databases[0], options=start)]
        assert compare(record.streams, ours, cases, Via.STREAM) >= 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"server_version": "5.0.20"}, "which is of release 5.0.20, do not show all changes; they can be rec")],
)
def test_streams_that_do_not_show_all_changes_are_not_recorded(options: Any, sentence: str) -> None:
    with ReplicaSet(**options) as source, pytest.raises(UsageError, match=sentence):
        Fronted(source.uri, via=Via.STREAM).__enter__()


def test_the_streams_of_a_cluster_are_not_recorded() -> None:
    with (
        ShardedCluster(shards=1) as cluster,
        pytest.raises(UsageError, match="is a router, and the streams of a sharded cluster cannot be rec"),
    ):
        Fronted(cluster.uri, via=Via.STREAM).__enter__()


@pytest.mark.parametrize(
    ("watch", "name"),
    [
        ({"showSystemEvents": True}, "showSystemEvents"),
        ({"showMigrationEvents": True}, "showMigrationEvents"),
        ({"showRawUpdateDescription": True}, "showRawUpdateDescription"),
        ({"supportedEvents": ["x"]}, "supportedEvents"),
    ],
)
def test_what_the_stream_does_not_show_is_refused(front: Fronted, watch: dict[str, Any], name: str) -> None:
    with pytest.raises(
        OperationFailure, match=f"{name} cannot be served here: Tailrace reads the cha"
    ) as found:
        front.client().shop.aggregate([{"$changeStream": watch}])
    assert found.value.code == 115
    with pytest.raises(CommandError, match=f"{name} cannot be served here"):
        StreamBatches(
            read_options(
                {"uri": front.server.source.uri, "via": "stream", "ns": "shop.orders", **texts(watch)}
            )
        )


def texts(options: dict[str, Any]) -> dict[str, str]:
    """Options of a stream as Spark passes them."""
    return {name: json.dumps(value) for name, value in options.items()}


@pytest.mark.usefixtures("record")
def test_a_stream_of_spark_is_that_of_the_oplog(source: ReplicaSet) -> None:
    def rows(**options: str) -> list[bytes]:
        batches = StreamBatches(read_options({"uri": source.uri, **options}))
        start = batches.first_offset()
        end = batches.next_offset(start, None)
        blocks = (rows for piece in batches.between(start, end) for rows in batches.rows(piece))
        return [row.raw for rows in blocks for row in rows]

    options = {"startingOffsets": "earliest", "showExpandedEvents": "true", "partitions": "3"}
    images = {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}
    assert len(rows(**options, **images)) > OPERATIONS
    assert rows(**options, **images, via="stream") == rows(**options, **images, via="oplog")


def test_a_stream_ends_before_an_event_that_cannot_be_recorded() -> None:
    flag = {"featureFlagEndOfTransactionChangeEvent": "true"}
    with ReplicaSet(parameters=flag) as source, Fronted(source.uri, via=Via.STREAM) as front:
        client, ours = source.client(), front.client()
        with ours.shop.watch() as stream, ours.other.watch() as other:
            client.shop.orders.insert_one({"_id": 1})
            with client.start_session() as session, session.start_transaction():
                client.shop.orders.insert_one({"_id": 2}, session=session)
            client.other.orders.insert_one({"_id": 3})
            first = next(stream)
            assert first["documentKey"] == {"_id": 1}
            for ended in (stream, other):
                with pytest.raises(OperationFailure, match=r"endOfTransaction.* cannot be recorded exactly"):
                    next(ended)
        with pytest.raises(OperationFailure, match="cannot be recorded exactly"):
            next(ours.shop.watch(resume_after=first["_id"]))
        with ours.shop.watch(start_at_operation_time=first["clusterTime"], batch_size=1) as stream:
            assert next(stream) == first  # what comes before is shown, also from the source
            with pytest.raises(OperationFailure, match="cannot be recorded exactly"):
                next(stream)
        with ours.shop.watch() as stream:  # the server goes on
            client.shop.orders.insert_one({"_id": 4})
            assert next(stream)["documentKey"] == {"_id": 4}
