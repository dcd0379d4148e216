"""A sharded cluster as a source: shards that join and leave, their promises, and the ends of batches."""

import json
import pickle
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp
from tailrace.events.event_token import resume_token
from tailrace.events.interval import Interval
from tailrace.events.scope import Scope
from tailrace.lake.commit import commit as commit_to
from tailrace.lake.table import HistoryTable
from tailrace.pipeline.history.build import build
from tailrace.pipeline.history.checkpoint import open_table
from tailrace.pipeline.history.offset import to_offset
from tailrace.pipeline.history.settings import PipelineSettings
from tailrace.pipeline.streams.oplog_events import OplogEvents
from tailrace.pipeline.streams.planning import StreamPlanner
from tailrace.pipeline.streams.stream_spec import StreamSpec
from tailrace.sources.archives.files import FilesSource
from tailrace.sources.batch_boundaries import Commit, whole_time
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED, Planner
from tailrace.sources.source import OplogSource
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.laws.law_seeds import BASE_SEED
from tests.laws.wire_streams import WireStream, oplog_of
from tests.mongod.server.raw_client import RawClient
from tests.mongod.server.transacting import end, new_lsid, statement
from tests.support.shared_events import shared_events
from tests.support.streams import token_of


@pytest.fixture
def cluster() -> Iterator[ShardedCluster]:
    with ShardedCluster(shards=3) as running:
        yield running


@pytest.fixture
def source(cluster: ShardedCluster) -> Iterator[DeploymentSource]:
    with DeploymentSource(cluster.uri) as opened:
        yield opened


def insert_tokens(source: OplogSource, after: int, through: int) -> list[str]:
    """Return the tokens of the inserts in an interval."""
    return [
        resume_token(event).data
        for batch in shared_events(source, after, through)
        for event in batch
        if event.operation_type == "insert"
    ]


def write(cluster: ShardedCluster, shard: str, *numbers: int) -> Timestamp:
    """Insert directly into a shard; return the time of the last insert."""
    client = cluster.shard_client(shard)
    with client.start_session() as session:
        for number in numbers:
            client.shop.orders.insert_one({"_id": number}, session=session)
        assert session.operation_time is not None
        return session.operation_time


def streamed(cluster: ShardedCluster, end: Timestamp) -> list[str]:
    """Return the tokens that a router shows of the same inserts."""
    client = cluster.client()
    first = min(cluster.oplog(shard)[0]["ts"] for shard in cluster.shards)
    stream = WireStream(client, "shop.orders", {"startAtOperationTime": first})
    return [token_of(event)["_data"] for event in stream.events(end)]


def test_every_shard_is_read_and_an_idle_one_causes_no_wait_and_no_write(
    cluster: ShardedCluster, source: DeploymentSource
) -> None:
    version = cluster.client().config.version.find_one()
    assert version is not None
    assert source.shards() == ("shard0", "shard1", "shard2")
    assert source.identity() == str(version["clusterId"])
    quiet = len(cluster.oplog("shard2"))
    for number in range(10):
        last = write(cluster, f"shard{number % 2}", number)
        assert source.promised() >= from_timestamp(last)
    assert len(cluster.oplog("shard2")) == quiet
    found = insert_tokens(source, 0, source.promised())
    assert len(found) == 10
    assert found == sorted(found) == streamed(cluster, last)


def test_shards_join_and_leave_and_offsets_contain_the_shards_to_read(
    cluster: ShardedCluster, source: DeploymentSource
) -> None:
    """Each interval is read by a source that has its two offsets and no later state."""
    marks: list[tuple[int, dict[str, Any]]] = [(0, source.membership())]

    def mark(end: Timestamp) -> None:
        promised = source.promised()
        assert promised >= from_timestamp(end)
        marks.append((promised, source.membership()))

    write(cluster, "shard0", 1)
    mark(write(cluster, "shard1", 2))
    cluster.call(cluster.cluster.servers.start_shard("shard3"))
    mark(write(cluster, "shard3", 3))  # the only shard that writes
    write(cluster, "shard0", 4)
    write(cluster, "shard1", 5)  # not read yet when its shard leaves
    cluster.call(cluster.cluster.placement.remove_shard("shard1"))
    write(cluster, "shard1", 6)  # no longer part of the cluster
    mark(write(cluster, "shard3", 7))
    mark(write(cluster, "shard0", 8))
    shards = [set(membership) for _, membership in marks]
    assert [len(names) for names in shards] == [3, 3, 4, 4, 4]
    assert ["left" in membership["shard1"] for _, membership in marks] == [False, False, False, True, True]
    read = []
    for (after, _), (through, membership) in pairwise(marks):
        planned = pickle.loads(pickle.dumps(source)).having(source.members_for(membership, after))
        read.append(len(found := insert_tokens(planned, after, through)))
        assert found == sorted(found)
        assert found == insert_tokens(planned, after, through)
    assert read == [2, 1, 3, 1]


def test_a_shard_that_left_before_it_was_read_is_lost_history(cluster: ShardedCluster) -> None:
    write(cluster, "shard1", 1)
    before = from_timestamp(write(cluster, "shard0", 2))
    with DeploymentSource(cluster.uri) as known:
        cluster.call(cluster.cluster.placement.remove_shard("shard1"))
        write(cluster, "shard0", 3)
        assert len(insert_tokens(known, 0, known.promised())) == 3
        with DeploymentSource(cluster.uri) as late:
            assert late.oldest() > before
            stream = StreamSpec.of(Scope.cluster(), {})
            with pytest.raises(CommandError) as raised:
                StreamPlanner(stream, OplogEvents(late)).check_start(before + 1)
            assert raised.value.code == ErrorCode.ChangeStreamHistoryLost
            late.remember(known.membership())  # as from the offset of a checkpoint
            assert late.oldest() == 0
            assert len(insert_tokens(late, 0, late.promised())) == 3


@pytest.mark.parametrize("stored", ["commit", "checkpoint"])
def test_a_history_knows_a_shard_that_left(cluster: ShardedCluster, tmp_path: Path, stored: str) -> None:
    write(cluster, "shard1", 1)
    settings = PipelineSettings(tmp_path / "history")
    with DeploymentSource(cluster.uri) as source:
        table = open_table(source, settings)
        interval = Interval(table.through, source.promised())
        files = build(source, interval, table.store).files
        members = source.membership()
    if stored == "checkpoint":  # as an older release does
        offsets = settings.checkpoint / "offsets"
        offsets.mkdir(parents=True)
        (offsets / "0").write_text(f"v1\n{{}}\n{json.dumps(to_offset(interval.through, members))}\n")
    shards = members if stored == "commit" else None
    assert commit_to(table, files, after=interval.after, through=interval.through, shards=shards)
    write(cluster, "shard1", 2)
    cluster.call(cluster.cluster.placement.remove_shard("shard1"))
    write(cluster, "shard0", 3)
    with DeploymentSource(cluster.uri) as later:
        assert open_table(later, settings).through == interval.through
        assert len(insert_tokens(later, interval.through, later.promised())) == 2


class Parts:
    """A transaction on several shards, committed or aborted shard by shard."""

    def __init__(self, raws: dict[str, RawClient], number: int) -> None:
        self._raws = raws
        self._lsid = new_lsid()
        documents = [{"_id": number}]
        times = []
        for raw in raws.values():
            insert = {"insert": "orders", "documents": documents}
            assert statement(raw, self._lsid, 1, insert, start=True)["ok"] == 1.0
            times.append(end(raw, self._lsid, 1, "prepareTransaction")["prepareTimestamp"])
        self._time = max(times)

    def commit(self, shard: str) -> Timestamp:
        reply = end(self._raws[shard], self._lsid, 1, "commitTransaction", commitTimestamp=self._time)
        assert reply["ok"] == 1.0, reply
        time: Timestamp = reply["operationTime"]
        return time

    def abort(self, shard: str) -> None:
        assert end(self._raws[shard], self._lsid, 1, "abortTransaction")["ok"] == 1.0


@contextmanager
def raw_clients(cluster: ShardedCluster) -> Iterator[dict[str, RawClient]]:
    with ExitStack() as stack:
        clients = {}
        for shard in cluster.shards:
            host, _, port = cluster.cluster.server(shard).address.rpartition(":")
            clients[shard] = RawClient(stack.enter_context(socket.create_connection((host, int(port)))))
        yield clients


def test_no_promise_is_between_the_commits_of_one_transaction(
    cluster: ShardedCluster, source: DeploymentSource
) -> None:
    for shard in cluster.shards:
        write(cluster, shard, 0)
    with raw_clients(cluster) as raws:
        waiting = Parts({"shard1": raws["shard1"], "shard2": raws["shard2"]}, 1)
        # No shard has committed it: later writes of others can be promised.
        free = from_timestamp(write(cluster, "shard0", 2))
        assert source.promised() >= free
        parts = Parts({"shard0": raws["shard0"], "shard1": raws["shard1"]}, 3)
        torn = from_timestamp(parts.commit("shard0"))
        write(cluster, "shard2", 4)
        assert source.promised() < torn
        waiting.abort("shard1")
        waiting.abort("shard2")
        assert source.promised() < torn
        last = from_timestamp(parts.commit("shard1"))
        assert source.promised() >= last


def test_limits_do_not_split_transactions(cluster: ShardedCluster, tmp_path: Path) -> None:
    """Checked on a cluster and on its archived oplogs; the seed decides which shards commit when."""
    rng = random.Random(BASE_SEED)
    for shard in cluster.shards:
        write(cluster, shard, -1)
    with raw_clients(cluster) as raws:
        under_way: list[tuple[Parts, list[str]]] = []
        for number in range(60):
            if rng.random() < 0.3:
                shards = rng.sample(sorted(raws), 2)
                under_way.append((Parts({name: raws[name] for name in shards}, number), shards))
            if under_way and rng.random() < 0.9:
                parts, shards = rng.choice(under_way)
                parts.commit(shards.pop())
                under_way = [each for each in under_way if each[1]]
            write(cluster, rng.choice(sorted(raws)), 100 + number)
        for parts, shards in under_way:
            for shard in shards:
                parts.commit(shard)
    archive = {}
    for shard in cluster.shards:
        path = tmp_path / f"{shard}.bson"
        path.write_bytes(b"".join(oplog_of(cluster.shard_client(shard))))
        archive[shard] = [str(path)]
    commits = [
        Commit(from_timestamp(entry["o"]["commitTimestamp"]), from_timestamp(entry["ts"]))
        for shard in cluster.shards
        for entry in cluster.oplog(shard)
        if "commitTransaction" in entry["o"]
    ]
    by_transaction: dict[int, list[int]] = {}
    for commit in commits:
        by_transaction.setdefault(commit.decided, []).append(commit.ts)
    assert len(by_transaction) > 10
    for source in (DeploymentSource(cluster.uri), FilesSource(archive)):
        with source:
            through = source.promised()
            planner = Planner(source)
            for size in (1, 2, 5):
                position, batches = 0, 0
                while position < through:
                    ending = planner.batch_end(position, through, size, UNLIMITED)
                    assert ending > position
                    position = ending
                    batches += 1
                    for times in by_transaction.values():
                        assert len({time <= position for time in times}) == 1, (BASE_SEED, size)
                assert batches > 5, (BASE_SEED, size)


@pytest.mark.parametrize("seed", range(BASE_SEED, BASE_SEED + 20))
def test_the_nearest_time_between_transactions_is_found(seed: int) -> None:
    """Compared with a search through all times."""
    rng = random.Random(seed)
    commits = []
    for _ in range(rng.randrange(1, 12)):
        decided = rng.randrange(1, 60)
        commits += [Commit(decided, decided + rng.randrange(0, 9)) for _ in range(rng.randrange(1, 4))]
    whole = [time for time in range(80) if not any(commit.decided <= time < commit.ts for commit in commits)]
    for after in whole:
        later = [commit for commit in commits if commit.ts > after]
        for wanted in range(after + 1, 75):
            before = [time for time in whole if after < time <= wanted]
            expected = before[-1] if before else next(time for time in whole if time > wanted)
            assert whole_time(wanted, after, later) == expected, (seed, wanted, after)


def test_a_shard_that_left_keeps_running_until_the_history_has_read_it(tmp_path: Path) -> None:
    """Also after a restart, with any port."""
    history = tmp_path / "history"
    with ShardedCluster(shards=2, data=tmp_path / "data", history=history) as cluster:
        write(cluster, "shard1", 1)
        cluster.call(cluster.cluster.servers.remove("shard1"))
        last = write(cluster, "shard0", 2)
        cluster.restart()
        with DeploymentSource(cluster.uri) as source:
            assert source.oldest() == 0
            assert len(insert_tokens(source, 0, source.promised())) == 2
            HistoryTable.create(history, identity=source.identity(), begins=from_timestamp(last))
        cluster.restart()
        with DeploymentSource(cluster.uri) as source:
            assert source.shards() == ("shard0",)
            assert 0 < source.oldest() <= from_timestamp(last)


def test_a_shard_that_joins_again_is_read_without_the_time_between(
    cluster: ShardedCluster, source: DeploymentSource
) -> None:
    write(cluster, "shard1", 1)
    member = cluster.cluster.server("shard1").address
    cluster.call(cluster.cluster.servers.remove("shard1"))
    write(cluster, "shard0", 0)
    first = source.promised()
    with MongoClient[dict[str, Any]](f"mongodb://{member}/") as former:
        former.elsewhere.orders.insert_one({"_id": 2})
    cluster.client().admin.command("addShard", f"shard1/{member}")
    last = write(cluster, "shard1", 3)
    promised = source.promised()
    assert promised >= from_timestamp(last)
    planned = source.having(source.members_for(source.membership(), first))
    assert len(insert_tokens(planned, first, promised)) == 1
