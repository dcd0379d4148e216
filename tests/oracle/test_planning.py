"""Plan and read batches of a real oplog: what the server examines, and which member is asked."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.events.cluster_time import from_timestamp, to_timestamp
from tailrace.sources.deployments.deployment import DeploymentSource
from tailrace.sources.planning import UNLIMITED, Planner
from tests.oracle.faults import SETTINGS, majority_end, wait_for_members
from tests.oracle.real_server import RealReplicaSet, missing_mongod

Document = dict[str, Any]
OPLOG = "local.oplog.rs"
LIMIT = 101_000
"""Entries of a batch"""


@contextmanager
def profiled(*clients: MongoClient[Document]) -> Iterator[list[list[Document]]]:
    """Record what Tailrace asks each server for the oplog during a block."""
    found: list[list[Document]] = []
    for client in clients:
        client.local.system.profile.drop()
        client.local.command("profile", 2, sampleRate=1.0)
    try:
        yield found
    finally:
        for client in clients:
            client.local.command("profile", 0)
            found.append(list(client.local.system.profile.find({"appName": "tailrace", "ns": OPLOG})))
            client.local.system.profile.drop()


def written(client: MongoClient[Document], number: int) -> Timestamp:
    """Insert documents; return the time of the last one."""
    with client.start_session() as session:
        for _ in range(number // 10_000):
            client.shop.planned.insert_many(({"text": "x" * 50} for _ in range(10_000)), session=session)
        assert session.operation_time is not None
        return session.operation_time


def count(client: MongoClient[Document], after: int, through: int) -> int:
    times = {"$gt": to_timestamp(after), "$lte": to_timestamp(through)}
    return client.local.oplog.rs.count_documents({"ts": times})


@pytest.mark.slow  # and in `make oracle`
def test_the_plan_of_a_batch_does_not_read_the_backlog(real_set: RealReplicaSet) -> None:
    with real_set.client() as client, DeploymentSource(real_set.uri) as source:
        client.admin.command("appendOplogNote", data={})
        begin = client.shop.command("ping")["operationTime"]
        client.shop.planned.insert_one({})
        after = from_timestamp(begin)
        examined = []
        for _ in range(2):
            promised = from_timestamp(written(client, 120_000))
            assert source.promised() >= promised
            planner = Planner(source)
            with profiled(client) as found:
                end = planner.batch_end(after, promised, LIMIT, UNLIMITED)
                cuts = planner.cuts(after, end, 4)
            (commands,) = found
            examined.append(sum(command["docsExamined"] for command in commands))
            # How near to the limit it is depends on how evenly the server has written.
            assert LIMIT / 10 < count(client, after, end) <= LIMIT * 1.1
            pieces = [count(client, *piece) for piece in pairwise([after, *cuts, end])]
            assert len(pieces) == 4
            assert max(pieces) < sum(pieces) * 0.75
        assert max(examined) < 1_500


@pytest.mark.slow
def test_members_are_read_by_the_read_preference_of_the_uri(tmp_path: Path) -> None:
    reason = missing_mongod()
    if reason is not None:
        pytest.skip(reason)
    three = RealReplicaSet(tmp_path, members=3)
    try:
        three.start(SETTINGS)
        wait_for_members(three)
        primary = three.primary()
        secondaries = [member for member in three.members if member is not primary]
        with three.client() as client:
            client.shop.orders.insert_many([{"_id": number} for number in range(5_000)])
            end = majority_end(three)
            oplog = list(client.local.oplog.rs.find({"ts": {"$lte": end}}))
        with (
            DeploymentSource(f"{three.uri}&readPreference=secondary") as source,
            ExitStack() as stack,
            profiled(
                *(stack.enter_context(member.client()) for member in (primary, *secondaries))
            ) as commands,
        ):
            promised = source.promised()
            while promised < from_timestamp(end):
                promised = source.promised()
            after = from_timestamp(oplog[-4_000]["ts"])
            limit = Planner(source).batch_end(after, promised, 3_000, UNLIMITED)
            assert Planner(source).cuts(after, limit, 2)
            read = [bson.decode(raw) for batch in source.entries("", after, limit) for raw in batch]
        assert read == oplog[-3_999:-999]
        asked, *others = commands
        assert not asked
        assert any(command["op"] == "query" for other in others for command in other)
    finally:
        three.stop()


@pytest.mark.slow
def test_two_hundred_shards_are_planned_and_read(real_set: RealReplicaSet) -> None:
    """One server under many connection strings, so each shard has a client of its own."""
    address = real_set.members[0].address
    uris = {f"shard{n}": f"mongodb://{address}/?directConnection=true&w={n + 1}" for n in range(200)}
    with real_set.client() as client, DeploymentSource(uris) as source:
        after = from_timestamp(client.shop.command("ping")["operationTime"])
        end = from_timestamp(written(client, 10_000))
        promised = source.promised()
        assert promised >= end
        planner = Planner(source)
        limit = planner.batch_end(after, promised, 200 * 3_000, UNLIMITED)
        assert count(client, after, limit) == 3_000
        (first, *_) = planner.cuts(after, limit, 2)
        for shard in source.shards():
            found = [raw for batch in source.entries(shard, after, first) for raw in batch]
            assert len(found) == count(client, after, first)
