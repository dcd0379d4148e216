"""Running deployments as a source, over real sockets."""

import pickle
from collections.abc import Iterator
from itertools import pairwise

import bson
import pytest

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, UsageError
from tailrace.events.change_event import ChangeEvent
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.event_token import resume_token
from tailrace.sources.conditions import EntryCondition
from tailrace.sources.deployments.clients import shard_uri
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import Planner
from tailrace.testing.replica_set import ReplicaSet
from tests.support.shared_events import shared_events


@pytest.fixture
def deployment() -> Iterator[ReplicaSet]:
    with ReplicaSet() as replica_set:
        yield replica_set


@pytest.fixture
def source(deployment: ReplicaSet) -> Iterator[DeploymentSource]:
    with DeploymentSource(deployment.uri) as opened:
        yield opened


def read(source: DeploymentSource, after: int, through: int) -> list[bytes]:
    return [raw for batch in source.entries("", after, through) for raw in batch]


def events(source: DeploymentSource, after: int = 0) -> list[ChangeEvent]:
    return [event for batch in shared_events(source, after, source.promised()) for event in batch]


def test_an_interval_contains_the_entries_between_its_times(
    deployment: ReplicaSet, source: DeploymentSource
) -> None:
    orders = deployment.client().shop.orders
    for number in range(300):
        orders.insert_one({"_id": number, "text": "x" * (number % 7 * 50)})
    oplog = deployment.oplog()
    times = [from_timestamp(entry["ts"]) for entry in oplog]
    source = pickle.loads(pickle.dumps(source))
    assert (source.shards(), source.oldest(), source.promised()) == (("",), 0, times[-1])
    assert [bson.decode(raw) for raw in read(source, 0, times[-1])] == oplog
    assert [bson.decode(raw) for raw in read(source, times[9], times[20])] == oplog[10:21]
    for parts in (2, 5):
        intervals = Planner(source).intervals(0, times[-1], parts)
        assert 1 < len(intervals) <= parts
        assert all(stop == begin for (_, stop), (begin, _) in pairwise(intervals))
        assert [bson.decode(raw) for cut in intervals for raw in read(source, *cut)] == oplog
    for limit in (1, 7, 290):
        end = Planner(source).limit(times[4], times[-1], limit, 1 << 62)
        assert len(read(source, times[4], end)) == limit
    sized = read(source, times[4], Planner(source).limit(times[4], times[-1], 1 << 62, 5_000))
    assert 4_000 < sum(map(len, sized)) <= 5_000
    wanted = EntryCondition(operations=frozenset("c"), namespaces=frozenset({"shop.$cmd"}))
    (created,) = [raw for batch in source.entries("", 0, times[-1], wanted) for raw in batch]
    assert bson.decode(created)["o"]["create"] == "orders"
    source.close()


def test_events_have_pre_images_and_lookups(deployment: ReplicaSet, source: DeploymentSource) -> None:
    client = deployment.client()
    database = client.shop
    database.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    database.orders.insert_many([{"_id": n, "n": n} for n in (0, 2, 3)])
    database.plain.insert_one({"_id": 1})
    with client.start_session() as session, session.start_transaction():
        database.orders.update_one({"_id": 2}, {"$set": {"n": 20}}, session=session)
        database.orders.delete_one({"_id": 0}, session=session)
        database.plain.delete_one({"_id": 1}, session=session)
    database.orders.replace_one({"_id": 2}, {"n": 30})
    found_events = events(source)
    tokens = [resume_token(event).data for event in found_events]
    assert tokens == sorted(set(tokens))
    images = [
        (event.operation_type, bson.decode(event.pre_image) if event.pre_image else None)
        for event in found_events
        if event.operation_type in ("update", "replace", "delete")
    ]
    assert images == [
        ("update", {"_id": 2, "n": 2}),
        ("delete", {"_id": 0, "n": 0}),
        ("delete", None),
        ("replace", {"_id": 2, "n": 20}),
    ]
    last = found_events[-1]
    assert last.document_key is not None
    lookups = source.lookups("", 0, source.promised())
    found = lookups.document("shop.orders", last.document_key, last.kind.uuid)
    assert found is not None
    assert bson.decode(found) == {"_id": 2, "n": 30}
    assert lookups.document("shop.orders", last.document_key, bytes(16)) is None
    assert lookups.document("shop.nothing", last.document_key, None) is None
    entry = deployment.oplog()[-1]
    ts = from_timestamp(entry["ts"])
    assert bson.decode(lookups.entry(ts, entry["t"]) or b"") == entry
    assert lookups.entry(ts, entry["t"] + 1) is None
    assert lookups.entry(ts + 1, entry["t"]) is None


def test_a_transaction_that_began_before_the_interval_is_complete(
    deployment: ReplicaSet, source: DeploymentSource
) -> None:
    client = deployment.client()
    client.shop.create_collection("orders")
    large = "x" * 9_000_000  # three of them do not fit into one entry
    with client.start_session() as session, session.start_transaction():
        for number in range(3):
            client.shop.orders.insert_one({"_id": number, "text": large}, session=session)
    oplog = deployment.oplog()
    assert sum("applyOps" in entry["o"] for entry in oplog) > 1
    last = from_timestamp(oplog[-1]["ts"])
    assert len(read(source, last - 1, last)) == 1
    found_events = events(source, last - 1)
    assert [bson.decode(event.document_key or b"")["_id"] for event in found_events] == [0, 1, 2]


def test_an_interval_before_the_truncated_oplog_is_lost_history(
    deployment: ReplicaSet, source: DeploymentSource
) -> None:
    orders = deployment.client().shop.orders
    for number in range(50):
        orders.insert_one({"_id": number})
    times = [from_timestamp(entry["ts"]) for entry in deployment.oplog()]
    deployment.truncate_oplog(deployment.oplog()[20]["ts"])
    oldest = source.oldest()
    assert times[10] < oldest <= times[20]
    assert len(read(source, oldest - 1, times[-1])) == sum(time >= oldest for time in times)
    for after in (0, times[5]):
        with pytest.raises(CommandError) as raised:
            read(source, after, times[-1])
        assert raised.value.code == ErrorCode.ChangeStreamHistoryLost
    assert times[5] < source.beginning() == oldest - 1


def test_the_identity_is_that_of_the_replica_set_and_survives_a_restart(
    deployment: ReplicaSet, source: DeploymentSource
) -> None:
    config = deployment.client().admin.command("replSetGetConfig")["config"]
    assert source.identity() == str(config["settings"]["replicaSetId"])
    deployment.restart()
    with DeploymentSource(deployment.uri) as again, ReplicaSet() as other:
        assert again.identity() == source.identity()
        with DeploymentSource(other.uri) as another:
            assert another.identity() != source.identity()


def test_several_shards_are_merged_and_an_idle_one_writes_a_no_op(deployment: ReplicaSet) -> None:
    with ReplicaSet() as idle, DeploymentSource({"busy": deployment.uri, "idle": idle.uri}) as source:
        idle.client().shop.orders.insert_one({"_id": 1})
        for number in range(3):
            deployment.client().shop.orders.insert_one({"_id": number})
        # The source lets the idle shard write a no-op; then the promise covers the writes of the busy one.
        wanted = from_timestamp(deployment.cluster_time)
        promises = (source.promised() for _ in range(10_000))
        promised = next(promise for promise in promises if promise >= wanted)
        found_events = [event for batch in shared_events(source, 0, promised) for event in batch]
        assert {event.shard for event in found_events} == {"busy", "idle"}
        tokens = [resume_token(event).data for event in found_events]
        assert tokens == sorted(set(tokens))
        assert sum(event.operation_type == "insert" for event in found_events) == 4


def test_a_source_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(UsageError, match=r"127.0.0.1:1 cannot be reached"):
        DeploymentSource("mongodb://user:secret@127.0.0.1:1/?serverSelectionTimeoutMS=200")
    with pytest.raises(UsageError, match="no connection string"):
        DeploymentSource("mongodb://host:port")
    with ReplicaSet(replica_set=None) as standalone, pytest.raises(UsageError, match="has no oplog"):
        DeploymentSource(standalone.uri)


def test_a_shard_is_reached_with_the_routers_credentials() -> None:
    uri = "mongodb://user:p%40ss@router:27017/admin?authSource=admin&tls=true&replicaSet=config"
    assert shard_uri(uri, "rs0/a:1,b:2") == (
        "mongodb://user:p%40ss@a:1,b:2/admin?authSource=admin&replicaSet=rs0&tls=true"
    )
