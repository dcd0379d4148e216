"""`tailrace status` and `tailrace token --source`: what they show of deployments and histories."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tailrace.lake.table import HistoryTable
from tailrace.testing.replica_set import ReplicaSet
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.cli.console import Here
from tests.oracle.real_server import missing_mongod, real_replica_set

Document = dict[str, Any]
NOBODY = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("status") / "history")


@pytest.fixture(scope="module")
def replica_set(history: str) -> Iterator[ReplicaSet]:
    with ReplicaSet(members=3, history=history, builds_history=True) as replica_set:
        yield replica_set


@pytest.fixture(scope="module")
def tokens(replica_set: ReplicaSet) -> list[str]:
    """The tokens of five inserts, which the history has, too."""
    orders = replica_set.client().shop.orders
    with orders.watch() as stream:
        orders.insert_many([{"_id": number} for number in range(5)])
        found = [str(next(stream)["_id"]["_data"]) for _ in range(5)]
    replica_set.catch_up()
    return found


def rows(output: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in output:
        label, _, text = line.partition(" ")
        found.setdefault(label, []).append(text.strip())
    return found


def test_a_deployment_is_one_screen(here: Here, replica_set: ReplicaSet, tokens: list[str]) -> None:
    with replica_set.client().shop.watch() as stream:
        outcome = here("status", replica_set.uri)
        assert stream.alive
    shown = rows(outcome.lines)
    assert (outcome.code, outcome.error, outcome.lines[-1]) == (0, "", "healthy")
    assert "Tailrace" in shown["deployment"][0]
    assert "replica set rs0" in shown["deployment"][0]
    assert [text.split()[-1] for text in shown["member"]] == ["PRIMARY", "SECONDARY", "SECONDARY"]
    assert "entries" in shown["oplog"][0]
    assert any(text.startswith("shop.*  client 127.0.0.1:") for text in shown["stream"])
    assert "events in 1 file," in shown["history"][0]


def test_a_program_reads_the_same(here: Here, replica_set: ReplicaSet, tokens: list[str]) -> None:
    with replica_set.client().shop.orders.watch(start_after={"_data": tokens[0]}) as stream:
        next(stream)
        shown = json.loads(here("status", replica_set.uri, "--json").output)
    assert shown["state"] == "healthy"
    (found,) = [stream for stream in shown["streams"] if stream["resumed"]]
    assert (found["scope"], found["lagSeconds"]) == ("shop.orders", 0)
    assert found["leavesOplogSeconds"] > 0
    assert shown["oplogs"][0]["entries"] > 0
    assert shown["history"]["events"] >= 5
    assert shown["faults"] == []


def test_a_member_that_cannot_be_reached_is_a_fault(here: Here, replica_set: ReplicaSet) -> None:
    with replica_set.cut_off(1):
        outcome = here("status", replica_set.uri)
    shown = rows(outcome.lines)
    assert (outcome.code, outcome.lines[-1]) == (1, "degraded")
    assert "look at its log" in shown["wrong"][0]


def test_a_client_that_stopped_to_ask_is_a_fault(here: Here) -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        with client.lazy.orders.watch() as stream:
            stream.try_next()
            replica_set.advance_clock(100)
            client.lazy.others.insert_one({})
            outcome = here("status", replica_set.uri, "--max-lag", "90s")
            assert here("status", replica_set.uri, "--max-lag", "1h").code == 0
    assert outcome.code == 1
    assert "has not asked for events of lazy.orders" in rows(outcome.lines)["wrong"][0]


@pytest.mark.skipif(missing_mongod() is not None, reason=missing_mongod() or "")
def test_a_client_that_a_mongodb_does_not_name_may_be_gone(here: Here, tmp_path: Path) -> None:
    with (
        real_replica_set(tmp_path) as real,
        real.client() as client,
        client.lazy.orders.watch(max_await_time_ms=1) as stream,
    ):
        stream.try_next()
        asked = time.time()
        # Its clock has whole seconds.
        while time.time() < asked + 2:
            client.lazy.others.insert_one({})
        outcome = here("status", real.uri, "--max-lag", "0s")
        shown = json.loads(here("status", real.uri, "--max-lag", "0s", "--json").output)
    assert outcome.code == 1
    found = rows(outcome.lines)
    assert found["stream"][0].startswith("lazy.orders  client unknown  ")
    assert found["wrong"][0].startswith("a client has not asked for events of lazy.orders for ")
    assert "stuck, or gone" in found["wrong"][0]
    assert [stream["client"] for stream in shown["streams"]] == [None]


@pytest.mark.parametrize("source", ["mongodb", "folder", "no history"])
def test_what_cannot_be_reached_has_its_own_code(here: Here, tmp_path: Path, source: str) -> None:
    places = {"mongodb": NOBODY, "folder": str(tmp_path / "missing"), "no history": str(tmp_path)}
    outcome = here("status", places[source])
    assert (outcome.code, len(outcome.lines)) == (2, 1)
    assert outcome.lines[0].startswith("unreachable: ")
    assert "configured timeouts" not in outcome.lines[0]
    assert json.loads(here("status", places[source], "--json").output)["state"] == "unreachable"


def test_a_history_is_shown_without_its_server(here: Here, history: str, tokens: list[str]) -> None:
    outcome = here("status", history, "--max-lag", "1000d")
    shown = rows(outcome.lines)
    assert (outcome.code, outcome.lines[-1]) == (0, "healthy")
    assert shown["history"][0].startswith(history)
    # A few seconds say nothing of a day.
    assert "a day" not in shown["history"][0]
    assert "compiled" in shown["kernel"][0] or "numpy" in shown["kernel"][0]
    parent = here("status", str(Path(history).parent), "--max-lag", "1000d")
    assert rows(parent.lines)["history"] == shown["history"]


def test_a_history_that_was_only_created_has_no_lag(here: Here, tmp_path: Path) -> None:
    HistoryTable.create(str(tmp_path), identity="one", begins=0)
    outcome = here("status", tmp_path)
    assert outcome.code == 1
    assert outcome.lines[0] == f"history     {tmp_path}: nothing is stored yet"
    assert rows(outcome.lines)["wrong"] == [
        "nothing is stored in the history yet; read the log of the pipeline"
    ]
    assert json.loads(here("status", tmp_path, "--json").output)["history"]["through"] is None


def test_an_old_history_is_degraded(here: Here, history: str, tokens: list[str]) -> None:
    outcome = here("status", history, "--max-lag", "0s", "--json")
    assert outcome.code == 1
    assert "the history is" in json.loads(outcome.output)["faults"][0]


def test_a_cluster_shows_its_shards(here: Here) -> None:
    with ShardedCluster(shards=2) as cluster:
        with cluster.client().watch() as stream:
            cluster.client().shop.orders.insert_one({"_id": 1})
            token = next(stream)["_id"]["_data"]
            shown = rows(here("status", cluster.uri).lines)
        assert len(shown["member"]) == len(shown["oplog"]) == 2
        assert shown["stream"][0].startswith("everything")
        outcome = here("token", token, "--source", cluster.uri)
        assert (outcome.code, rows(outcome.lines)["resumable"]) == (0, ["yes, from the oplog"])


def test_a_token_is_resumed_from_the_oplog(here: Here, replica_set: ReplicaSet, tokens: list[str]) -> None:
    outcome = here("token", tokens[1], "--source", replica_set.uri, "--ns", "shop.orders", "--json")
    found = json.loads(outcome.output)["resumption"]
    assert outcome.code == 0
    assert (found["resumable"], found["tier"]) == (True, "the oplog")
    assert found["eventsAfter"] == {"$numberInt": "3"}  # all of them in the entry of the token
    assert int(found["leavesOplogSeconds"]["$numberInt"]) > 0
    assert "then in the history" in here("token", tokens[1], "--source", replica_set.uri).output.decode()


@pytest.mark.parametrize("number", range(5))
def test_the_events_after_a_token_are_counted(
    here: Here, history: str, tokens: list[str], number: int
) -> None:
    shown = rows(here("token", tokens[number], "--source", history).lines)
    later = 5 - 1 - number
    assert shown["resumable"] == ["yes, from the history"]
    assert int(shown["after"][0].split()[1]) >= later


def test_many_events_after_a_token_are_shown_as_entries(here: Here) -> None:
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        with orders.watch() as stream:
            orders.insert_one({"_id": -1})
            token = next(stream)["_id"]["_data"]
        for first in range(0, 1200, 400):
            orders.insert_many([{"_id": first + number} for number in range(400)])
        shown = rows(here("token", token, "--source", replica_set.uri).lines)
    assert shown["after"] == ["it          3 oplog entries"]


def test_a_token_of_another_deployment_is_not_there(here: Here, history: str, tokens: list[str]) -> None:
    other = tokens[4].replace("2B08000004", "2B0C000004")
    outcome = here("token", other, "--source", history)
    assert outcome.code == 1
    assert "no: the history has no event with this token" in rows(outcome.lines)["resumable"][0]


def test_a_token_of_the_future_is_not_there(here: Here, history: str, tokens: list[str]) -> None:
    outcome = here("token", f"82{int(time.time()) + 10**6:08X}000000022B0429296E1404", "--source", history)
    assert outcome.code == 1
    assert "has not reached it" in rows(outcome.lines)["resumable"][0]


def test_a_token_is_resumed_from_the_history_after_the_oplog(here: Here, tmp_path: Path) -> None:
    with ReplicaSet(history=tmp_path / "history", builds_history=True) as replica_set:
        orders = replica_set.client().shop.orders
        with orders.watch() as stream:
            orders.insert_many([{"_id": number} for number in range(3)])
            token = next(stream)["_id"]["_data"]
        orders.insert_one({"_id": 3})
        replica_set.catch_up()
        replica_set.truncate_oplog()
        shown = rows(here("token", token, "--source", replica_set.uri).lines)
    assert shown["resumable"] == ["yes, from the history"]
    assert shown["after"] == ["it          3 events"]
    assert "--keep-age" in shown["stays"][0]


def test_a_lost_token_is_not_resumable(here: Here) -> None:
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        with orders.watch() as stream:
            orders.insert_many([{"_id": number} for number in range(3)])
            token = next(stream)["_id"]["_data"]
        orders.insert_one({})
        replica_set.truncate_oplog()
        outcome = here("token", token, "--source", replica_set.uri)
    assert outcome.code == 1
    assert "286 ChangeStreamHistoryLost" in rows(outcome.lines)["resumable"][0]


def test_a_token_that_is_cut_off_cannot_be_asked_for(here: Here, history: str) -> None:
    assert "give the whole token" in here("token", "8263515EAC00000002...", "--source", history).sentence


def test_nobody_answers_for_a_token(here: Here) -> None:
    outcome = here("token", "8263515EAC000000022B0429296E1404", "--source", NOBODY)
    assert outcome.code == 2
    assert "cannot be reached" in outcome.sentence


@pytest.mark.skipif(missing_mongod() is not None, reason=missing_mongod() or "")
def test_a_real_server_is_asked_in_the_same_way(here: Here, tmp_path: Path) -> None:
    with real_replica_set(tmp_path / "real") as real, real.client() as client:
        orders = client.shop.orders
        with orders.watch() as stream:
            orders.insert_many([{"_id": number} for number in range(3)])
            token = next(stream)["_id"]["_data"]
            outcome = here("status", real.uri)
            shown = rows(outcome.lines)
            last = [next(stream)["_id"]["_data"] for _ in range(2)][-1]
        found = rows(here("token", token, "--source", real.uri).lines)
        newest = rows(here("token", last, "--source", real.uri).lines)
        # The server would notice with the next event: this one is of another document.
        other = here("token", last[:-6] + "06" + last[-4:], "--source", real.uri)
        beginning = rows(here("token", "8200000001000000012B0429296E1404", "--source", real.uri).lines)
    assert (newest["resumable"], newest["after"]) == (["yes, from the oplog"], ["it          0 events"])
    assert other.code == 1
    assert rows(other.lines)["resumable"][0].startswith("no: the deployment has no event with this token")
    # Its oplog has lost nothing.
    assert "for more than a year" in beginning["stays"][0] or "days" in beginning["stays"][0]
    assert outcome.code == 0
    assert shown["deployment"][0].startswith("MongoDB 6.0")
    assert shown["stream"][0].startswith("shop.orders")
    assert "GB" in shown["oplog"][0] or "MB" in shown["oplog"][0]
    assert found["resumable"] == ["yes, from the oplog"]
    assert found["after"] == ["it          2 events"]
    assert "at the present rate" in found["stays"][0]
