"""`tailrace watch` as users call it, on a real server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo.database import Database

from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here

Document = dict[str, Any]


def time_of(server: ReplicaSet) -> str:
    time = server.cluster_time
    return json.dumps({"$timestamp": {"t": time.time, "i": time.inc}})


def keys(lines: list[str]) -> list[int]:
    return [int(json.loads(line)["documentKey"]["_id"]["$numberInt"]) for line in lines]


@pytest.fixture
def started(tailrace_server: ReplicaSet, tailrace_database: Database[Document]) -> str:
    """A time before some inserts, as an argument."""
    tailrace_database.create_collection("orders")
    time = time_of(tailrace_server)
    tailrace_database.orders.insert_many([{"_id": number, "n": number} for number in range(6)])
    tailrace_database.others.insert_one({"_id": 100})
    return time


def test_events_are_lines_of_extended_json(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str
) -> None:
    namespace = f"{tailrace_database.name}.orders"
    outcome = here("watch", tailrace_uri, namespace, "--start-at-operation-time", started, "--max", "6")
    assert (outcome.code, outcome.error) == (0, "")
    # The time is that of an entry before the first insert.
    assert keys(outcome.lines) == [0, 1, 2, 3, 4, 5]
    first = json.loads(outcome.lines[0])
    assert list(first) == [
        "_id",
        "operationType",
        "clusterTime",
        "wallTime",
        "fullDocument",
        "ns",
        "documentKey",
    ]
    assert first["fullDocument"] == {"_id": {"$numberInt": "0"}, "n": {"$numberInt": "0"}}


def test_with_a_token_file_it_continues_where_it_stopped(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str, tmp_path: Path
) -> None:
    file = tmp_path / "orders.token"
    seen = []
    for count in ("2", "3", "2"):
        outcome = here(
            "watch", tailrace_uri, tailrace_database.name, "--start-at-operation-time", started,
            "--pipeline", '[{"$match": {"operationType": "insert"}}]',
            "--max", count, "--token-file", file, "--max-await-time-ms", "20",
        )  # fmt: skip
        assert outcome.code == 0
        seen += keys(outcome.lines)
    assert seen == [0, 1, 2, 3, 4, 5, 100]
    assert set(json.loads(file.read_text())) == {"_data"}


def test_options_of_the_stage_have_flags_and_others_are_json(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str
) -> None:
    tailrace_database.orders.update_one({"_id": 1}, {"$set": {"n": 5}})
    tailrace_database.orders.create_index("n")
    outcome = here(
        "watch", tailrace_uri, f"{tailrace_database.name}.orders",
        "--options", json.dumps({"startAtOperationTime": json.loads(started)}),
        "--full-document", "updateLookup", "--full-document-before-change", "whenAvailable",
        "--show-expanded-events", "--batch-size", "3", "--collation", '{"locale": "simple"}',
        "--pipeline", '[{"$match": {"operationType": {"$in": ["update", "createIndexes"]}}}]', "--max", "2",
    )  # fmt: skip
    update, created = map(json.loads, outcome.lines)
    assert update["fullDocument"]["n"] == {"$numberInt": "5"}
    assert update["fullDocumentBeforeChange"] is None
    assert created["operationType"] == "createIndexes"
    token = json.dumps(update["_id"])
    for option in ("--resume-after", "--start-after"):
        again = here(
            "watch",
            tailrace_uri,
            tailrace_database.name,
            option,
            token,
            "--show-expanded-events",
            "--max",
            "1",
        )
        assert json.loads(again.lines[0])["operationType"] == "createIndexes"


def test_an_invalidation_ends_it(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], tailrace_server: ReplicaSet
) -> None:
    tailrace_database.orders.insert_one({"_id": 1})
    time = time_of(tailrace_server)
    tailrace_database.orders.drop()
    namespace = f"{tailrace_database.name}.orders"
    outcome = here("watch", tailrace_uri, namespace, "--start-at-operation-time", time)
    assert outcome.code == 0
    assert [json.loads(line)["operationType"] for line in outcome.lines] == ["insert", "drop", "invalidate"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--max", "0"], "--max is a number of events"),
        (["--pipeline", "{}"], "--pipeline must be"),
        (["--options", "[]"], "--options must be"),
        (["--resume-after", "1"], "--resume-after must be"),
        (["--full-document", "whenever"], "(2 BadValue)"),
        (["--options", '{"unheard": 1}'], "(40415 "),
        (["--pipeline", '[{"$group": {"_id": 1}}]'], "(20 IllegalOperation)"),
        (["--resume-after", '{"_data": "00"}'], "("),
        (["--token-file", "/dev/null/x"], "/dev/null/x"),
    ],
)
def test_wrong_use_is_one_sentence(here: Here, tailrace_uri: str, arguments: list[str], words: str) -> None:
    outcome = here("watch", tailrace_uri, "shop.orders", *arguments)
    assert outcome.code == 2
    assert words in outcome.sentence
    assert outcome.output == b""


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", "does not answer"),
        ("mongodb://", "is not the address of a deployment"),
        ("http://127.0.0.1", "is not the address of a deployment"),
    ],
)
def test_a_deployment_that_does_not_answer(here: Here, address: str, words: str) -> None:
    outcome = here("watch", address, "shop")
    assert outcome.code == 2
    assert words in outcome.sentence


def test_an_error_of_the_open_stream_comes_after_its_events(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str
) -> None:
    spoiled = {"_id": {"$cond": ["$fullDocument.n", 1, "$_id"]}, "documentKey": 1}
    pipeline = json.dumps([{"$project": spoiled}])
    outcome = here(
        "watch", tailrace_uri, f"{tailrace_database.name}.orders",
        "--start-at-operation-time", started, "--pipeline", pipeline, "--batch-size", "1",
    )  # fmt: skip
    assert outcome.code == 1
    assert keys(outcome.lines) == [0]
    assert "(280 ChangeStreamFatalError)" in outcome.sentence


def test_events_are_printed_when_they_arrive(
    tailrace_uri: str, tailrace_database: Database[Document]
) -> None:
    """Output to a pipe is buffered: events must be flushed."""
    tailrace_database.orders.insert_one({"_id": 0})
    command = [sys.executable, "-m", "tailrace", "watch", tailrace_uri, tailrace_database.name]
    time = tailrace_database.client.admin.command("hello")["operationTime"]
    command += ["--start-at-operation-time", json.dumps({"$timestamp": {"t": time.time, "i": time.inc}})]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            tailrace_database.orders.insert_one({"_id": 1})
            assert keys([process.stdout.readline()]) == [1]
        finally:
            process.terminate()
