"""`tailrace consume` as users call it, on a server."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here, Outcome

Document = dict[str, Any]


class Calls:
    """`tailrace consume` with the address, the group and the place of its positions."""

    def __init__(self, here: Here, uri: str, group: str, namespace: str) -> None:
        self._here = here
        self._uri = uri
        self.group = group
        self.namespace = namespace

    def consume(self, *options: str | Path) -> Outcome:
        wait = ("--max-await-time-ms", "20")
        return self._here("consume", self._uri, self.group, self.namespace, *wait, *options)

    def do(self, *options: str | Path) -> Outcome:
        return self._here("consume", self._uri, self.group, *options)

    def status(self) -> Document:
        outcome = self.do("--status", "--json")
        assert outcome.code == 0, outcome.error
        found: Document = json.loads(outcome.output)
        return found


@pytest.fixture
def calls(
    here: Here, tailrace_server: ReplicaSet, tailrace_uri: str, tailrace_database: Database[Document]
) -> Calls:
    """A group that begins before six inserts, each with a time of its own."""
    tailrace_database.create_collection("orders")
    time = tailrace_server.cluster_time
    for number in range(6):
        tailrace_database.orders.insert_one({"_id": number})
    name = tailrace_database.name
    found = Calls(here, tailrace_uri, f"group-{name}", f"{name}.orders")
    started = json.dumps({"$timestamp": {"t": time.time, "i": time.inc}})
    assert found.consume("--start-at", started, "--max", "1").code == 0
    return found


def keys(lines: list[str]) -> list[int]:
    return [int(json.loads(line)["documentKey"]["_id"]["$numberInt"]) for line in lines]


def test_the_next_worker_continues_where_the_last_one_stopped(calls: Calls) -> None:
    outcome = calls.consume("--max", "2")
    assert (outcome.code, outcome.error) == (0, "")
    assert keys(outcome.lines) == [1, 2]
    assert keys(calls.consume("--max", "3").lines) == [3, 4, 5]


def test_a_new_group_begins_with_a_snapshot(calls: Calls, here: Here, tailrace_uri: str) -> None:
    group = (tailrace_uri, f"{calls.group}-read", calls.namespace, "--snapshot")
    outcome = here("consume", *group, "--max", "4")
    assert (outcome.code, outcome.error) == (0, "")
    assert {json.loads(line)["operationType"] for line in outcome.lines} == {"read"}
    assert keys(outcome.lines) == [0, 1, 2, 3]
    assert keys(here("consume", *group, "--max", "2").lines) == [4, 5]


def test_the_status_shows_the_lag(calls: Calls) -> None:
    found = calls.status()
    assert (found["lagEvents"], found["lagIsMore"], found["workers"]) == (5, False, [])
    assert found["namespace"] == calls.namespace
    text = calls.do("--status").lines
    assert text[0] == f"group       {calls.group}, consumes {calls.namespace}"
    assert text[1] == "state       no workers"
    assert text[3].startswith("lag         5 events, ")


def test_a_status_without_a_group_is_that_of_all(calls: Calls, here: Here, tailrace_uri: str) -> None:
    outcome = here("consume", tailrace_uri, "--status", "--json")
    assert calls.group in [json.loads(line)["group"] for line in outcome.lines]
    assert (
        f"group       {calls.group}, consumes {calls.namespace}"
        in here("consume", tailrace_uri, "--status").lines
    )


def test_the_status_of_a_deployment_shows_its_groups(calls: Calls, here: Here, tailrace_uri: str) -> None:
    text = here("status", tailrace_uri).lines
    (line,) = [line for line in text if line.startswith(f"group       {calls.group}  ")]
    assert f"consumes {calls.namespace}  no workers  read until " in line
    assert "lag 5 events, " in line
    assert line.endswith("  0 dead letters")
    found = json.loads(here("status", tailrace_uri, "--json").output)
    assert calls.status() in found["groups"]


def test_a_group_that_lags_or_cannot_go_on_is_a_fault_of_the_status(here: Here) -> None:
    with ReplicaSet() as replica_set:
        orders = replica_set.client().shop.orders
        orders.insert_one({"_id": 0})
        begin = json.dumps({"$timestamp": {"t": replica_set.cluster_time.time, "i": 1}})
        first = ("consume", replica_set.uri, "billing", "shop.orders", "--start-at", begin, "--max", "1")
        assert here(*first).code == 0
        replica_set.advance_clock(3600)
        orders.insert_one({"_id": 1})
        late = here("status", replica_set.uri)
        assert late.code == 1
        (fault,) = [line for line in late.lines if line.startswith("wrong ")]
        assert fault.startswith("wrong       the group billing is 1.0 hours after the newest write, ")
        assert fault.endswith("; no worker runs; start one")
        assert here("status", replica_set.uri, "--max-lag", "2h").code == 0
        assert here("consume", replica_set.uri, "billing", "--pause").code == 0
        assert here("status", replica_set.uri).code == 0
        replica_set.truncate_oplog()
        lost = here("status", replica_set.uri, "--json")
        assert lost.code == 1
        assert "the group billing cannot go on: " in json.loads(lost.output)["faults"][0]


def test_a_paused_group_is_shown_and_resumed(calls: Calls) -> None:
    assert calls.do("--pause").code == 0
    assert calls.status()["paused"] is True
    assert calls.do("--status").lines[1] == "state       paused"
    assert calls.do("--resume").code == 0
    assert calls.status()["paused"] is False


def test_a_group_goes_on_at_a_time_or_after_a_token(calls: Calls) -> None:
    events = [json.loads(line) for line in calls.consume("--max", "5").lines]
    assert calls.do("--seek", events[0]["_id"]["_data"]).code == 0
    assert keys(calls.consume("--max", "2").lines) == [2, 3]
    assert calls.do("--seek", json.dumps(events[2]["clusterTime"])).code == 0
    assert keys(calls.consume("--max", "3").lines) == [3, 4, 5]
    assert "takes a time" in calls.do("--seek", "7").sentence


def test_positions_can_be_kept_in_a_file(calls: Calls, here: Here, tailrace_uri: str, tmp_path: Path) -> None:
    place = ("--positions", tmp_path / "positions")
    assert "there are no groups in" in here("consume", tailrace_uri, "--status", *place).lines[0]
    begin = calls.status()["position"]
    assert keys(calls.consume(*place, "--start-after", begin, "--max", "1").lines) == [1]
    assert keys(calls.consume(*place, "--max", "1").lines) == [2]
    assert calls.status()["lagEvents"] == 5  # of the group of the same name on the server
    assert calls.do("--delete", *place).code == 0
    assert "there is no group" in calls.do("--delete", *place).sentence


def test_a_command_that_fails_ends_the_worker_or_makes_a_dead_letter(calls: Calls, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    fails = f"""grep -v '"documentKey": {{"_id": {{"$numberInt": "2"}}}}' >> {seen}"""
    outcome = calls.consume("--exec", fails, "--max", "3")
    assert outcome.code == 1
    assert "ended with exit code 1" in outcome.sentence
    assert keys(seen.read_text().splitlines()) == [1]
    assert calls.consume("--exec", fails, "--max-tries", "2", "--max", "3").code == 0
    assert keys(seen.read_text().splitlines()) == [1, 3, 4]
    assert calls.status()["deadLetters"] == 1
    (line,) = calls.do("--dead-letters").lines
    letter = json.loads(line)
    assert letter["tries"] == 2
    assert "exit code 1" in letter["error"]
    assert letter["event"]["documentKey"] == {"_id": {"$numberInt": "2"}}
    assert (
        calls.do("--replay", "--exec", fails).sentence == "1 dead letters could not be handled, and are kept"
    )
    assert keys(calls.do("--replay").lines) == [2]
    assert calls.do("--dead-letters").lines == []


@contextmanager
def running(*command: str) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-m", "tailrace", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_sigterm_ends_a_worker_after_the_event_that_it_has(calls: Calls, tailrace_uri: str) -> None:
    with running("consume", tailrace_uri, calls.group, calls.namespace) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode() for _ in range(5)]
        assert keys(lines) == [1, 2, 3, 4, 5]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert calls.status()["lagEvents"] == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--pause", "--delete"), "--pause and --delete exclude each other"),
        (("--json",), "--json belongs to --status"),
        (("--max", "0"), "--max is a number of events"),
        (("--max-tries", "0"), "max_tries is a number of calls"),
        (("--positions", "mongodb://a:b@h/d.c"), "can see a password"),
        (("--positions", "mongodb://127.0.0.1:1/d"), "names a collection"),
        (("--slots", "7"), "has 32 slots"),
        (("--pipeline", "{}"), "--pipeline must be"),
    ],
)
def test_wrong_options_are_one_sentence(calls: Calls, options: tuple[str, ...], sentence: str) -> None:
    outcome = calls.do(*options) if "--pause" in options else calls.consume(*options)
    assert outcome.code == 2
    assert sentence in outcome.sentence


def test_the_group_has_to_be_named(here: Here, tailrace_uri: str) -> None:
    assert "name the group" in here("consume", tailrace_uri).sentence
    assert "leave out shop" in here("consume", tailrace_uri, "g", "shop", "--pause").sentence
    assert "there is no group nobody" in here("consume", tailrace_uri, "nobody", "--pause").sentence
