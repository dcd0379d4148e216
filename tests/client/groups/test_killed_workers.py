"""Law: a worker that is killed at any moment loses nothing, and doubles nothing that was committed.

`make test-slow` has the long rounds.
"""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tailrace import ConsumerGroup, consume
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.client.groups.crew import SECONDS, Crew, crew, wait_until_done

Line = dict[str, Any]
Server = ReplicaSet | ShardedCluster
LEASE = "1"
LONG_LEASE = "2"
"""For a test in which no worker that runs may be taken for stopped, on a busy machine."""
KEYS = 12
READ_KEYS = 2500


class Writer:
    """Writes to documents, one number after another for each, and remembers what it wrote."""

    def __init__(self, server: Server, rng: random.Random, keys: int = KEYS) -> None:
        self.shop = server.client().shop
        self._rng = rng
        self.numbers = dict.fromkeys(range(keys), 0)
        self.shop.counters.insert_many([{"_id": key, "number": 0} for key in range(keys)])

    def write(self, count: int) -> None:
        for _ in range(count):
            key = self._rng.randrange(len(self.numbers))
            self.numbers[key] += 1
            self.shop.counters.update_one({"_id": key}, {"$set": {"number": self.numbers[key]}})

    def drop_another(self) -> None:
        """An event without a document, which is a barrier."""
        self.shop.temporary.insert_one({"_id": "barrier"})
        self.shop.temporary.drop()


def command_line(server: Server, log: Path, lease: str) -> tuple[str, ...]:
    return ("-m", "tests.client.groups.worker", server.uri, "counting", "shop", str(log), lease)


def lines(path: Path) -> list[Line]:
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def check(found: list[Line], numbers: dict[int, int], reason: str) -> None:
    """Every event was handled, and those of one document in order, apart from repetitions."""
    reached = dict.fromkeys(numbers, -1)
    for line in found:
        if line["key"] in reached:
            is_next = line["kind"] == "read" or line["number"] <= reached[line["key"]] + 1
            assert is_next, f"{reason}: {line} is too early"
            reached[line["key"]] = max(reached[line["key"]], line["number"])
    assert reached == numbers, reason


def check_barrier(found: list[Line], before: dict[int, int], reason: str) -> None:
    """At the first drop everything before it was handled, and nothing after it."""
    place = next(number for number, line in enumerate(found) if line["kind"] == "drop")
    reached = dict.fromkeys(before, -1)
    for line in found[:place]:
        if line["key"] in reached:
            reached[line["key"]] = max(reached[line["key"]], line["number"])
    assert reached == before, reason


def kill_workers(folder: Path, seed: int, kills: int, kind: type[Server] = ReplicaSet) -> None:
    rng = random.Random(seed)
    reason = f"seed {seed}"
    log = folder / f"handled-{seed}"
    with kind() as server:
        if isinstance(server, ShardedCluster):
            share_counters(server)
        consume(server.uri, "counting", ns="shop").close()  # the group begins here
        with crew(*command_line(server, log, LEASE)) as workers:
            for _ in range(2):
                workers.start()
            writer = Writer(server, rng)
            for _ in range(kills):
                writer.write(rng.randint(1, 60))
                _kill_one(workers, rng, log, len(lines(log)) + rng.randint(0, 10))
                workers.start()
            before = dict(writer.numbers)
            writer.drop_another()
            writer.write(30)
            wait_until_done(server.uri, "counting")
            assert set(workers.finish()) == {0}
        found = lines(log)
        check(found, writer.numbers, reason)
        check_barrier(found, before, reason)


def kill_readers(folder: Path, seed: int, kills: int) -> None:
    """Kill workers of a group that begins with a snapshot, while it reads and afterwards."""
    rng = random.Random(seed)
    log = folder / f"read-{seed}"
    with ReplicaSet() as server:
        writer = Writer(server, rng, READ_KEYS)
        writer.write(100)
        consume(server.uri, "counting", ns="shop", snapshot=True).close()
        with crew(*command_line(server, log, LEASE)) as workers:
            for _ in range(2):
                workers.start()
            for _ in range(kills):
                writer.write(rng.randint(1, 60))
                _kill_one(workers, rng, log, len(lines(log)) + rng.randint(1, READ_KEYS // kills))
                workers.start()
            before = dict(writer.numbers)
            writer.drop_another()
            wait_until_done(server.uri, "counting")
            assert set(workers.finish()) == {0}
        found = lines(log)
    check(found, writer.numbers, f"seed {seed}")
    check_barrier(found, before, f"seed {seed}")
    assert sum(line["kind"] == "read" for line in found) >= READ_KEYS


def share_counters(cluster: ShardedCluster) -> None:
    """Let the documents of the writer be on both shards."""
    client = cluster.client()
    client.admin.command("shardCollection", "shop.counters", key={"_id": "hashed"})
    assert len(set(client.config.chunks.distinct("shard"))) == 2


def _kill_one(workers: Crew, rng: random.Random, log: Path, handled: int) -> None:
    """Kill a worker after so many events were handled, or after a while."""
    deadline = time.monotonic() + rng.uniform(0, 1.5)
    while len(lines(log)) < handled and time.monotonic() < deadline:
        time.sleep(0.005)  # a poll with a deadline: the workers are other processes
    workers.kill(rng.choice(workers.processes))


def test_killed_workers_lose_nothing_and_keep_the_order_of_each_document(tmp_path: Path) -> None:
    kill_workers(tmp_path, seed=1, kills=2)


def test_a_killed_worker_of_a_group_on_a_sharded_cluster_loses_nothing(tmp_path: Path) -> None:
    kill_workers(tmp_path, seed=2, kills=1, kind=ShardedCluster)


def test_a_worker_that_is_killed_during_a_snapshot_loses_nothing(tmp_path: Path) -> None:
    kill_readers(tmp_path, seed=3, kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_many_workers_that_are_killed_during_a_snapshot_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_readers(tmp_path, seed=200 + seed, kills=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_killed_workers_lose_nothing(tmp_path: Path, seed: int) -> None:
    kill_workers(tmp_path, seed=100 + seed, kills=8)


@pytest.mark.slow
def test_a_worker_that_was_paused_for_too_long_cannot_move_positions(tmp_path: Path) -> None:
    """And with a graceful end of all workers nothing is handled twice by the next ones."""
    log = tmp_path / "handled"
    with ReplicaSet() as server:
        consume(server.uri, "counting", ns="shop").close()
        command = (
            *("-m", "tests.client.groups.worker"),
            server.uri,
            "counting",
            "shop",
            str(log),
            LONG_LEASE,
        )
        with crew(*command) as workers, ConsumerGroup(server.uri, "counting") as group:
            paused = workers.start()
            workers.wait_ready(paused)
            writer = Writer(server, random.Random(1))
            writer.write(20)
            wait_until_done(server.uri, "counting")
            os.kill(paused.pid, signal.SIGSTOP)
            workers.wait_ready(workers.start())
            deadline = time.monotonic() + SECONDS
            while len(group.status().slots) > 1 or None in group.status().slots or _has_two(group):
                assert time.monotonic() < deadline, group.status()
                time.sleep(0.05)
            writer.write(20)
            wait_until_done(server.uri, "counting")
            position = group.status().position
            os.kill(paused.pid, signal.SIGCONT)
            while not _has_two(group):  # it comes back as another member
                assert time.monotonic() < deadline, group.status()
                time.sleep(0.05)
            assert group.status().position["_data"] >= position["_data"]
            writer.write(20)
            wait_until_done(server.uri, "counting")
            assert set(workers.finish()) == {0}
        check(lines(log), writer.numbers, "paused")
        handled = len(lines(log))
        assert handled == KEYS + 60, "something was handled twice"


def _has_two(group: ConsumerGroup) -> bool:
    return len(group.status().members) == 2
