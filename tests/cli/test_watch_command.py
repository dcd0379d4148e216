"""`tailrace watch` as users call it, on a real server."""

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient
from pymongo.database import Database

from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here
from tests.mongod.server.running import wait_for

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
        (["--max-await-time-ms", "-5"], "--max-await-time-ms is a number of milliseconds, 0 or more"),
        (["--pipeline", "{}"], "--pipeline must be"),
        (["--options", "[]"], "--options must be"),
        (["--resume-after", "1"], "--resume-after takes a resume token"),
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


@pytest.fixture
def tokens(tailrace_database: Database[Document], started: str) -> list[str]:
    """The tokens of the six inserts."""
    with tailrace_database.orders.watch(start_at_operation_time=timestamp(started)) as stream:
        return [str(next(stream)["_id"]["_data"]) for _ in range(6)]


def timestamp(argument: str) -> Timestamp:
    found = json.loads(argument)["$timestamp"]
    return Timestamp(found["t"], found["i"])


@pytest.mark.parametrize("option", ["--resume-after", "--start-after"])
@pytest.mark.parametrize("is_hex", [True, False])
def test_a_token_is_hex_text_or_a_document(
    here: Here,
    tailrace_uri: str,
    tailrace_database: Database[Document],
    tokens: list[str],
    option: str,
    is_hex: bool,
) -> None:
    namespace = f"{tailrace_database.name}.orders"
    token = tokens[3] if is_hex else json.dumps({"_data": tokens[3]})
    assert keys(here("watch", tailrace_uri, namespace, option, token, "--max", "2").lines) == [4, 5]


@pytest.mark.parametrize("form", ["%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S+00:00"])
def test_a_stream_starts_at_a_time_of_day(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str, form: str
) -> None:
    moment = datetime.fromtimestamp(timestamp(started).time, UTC).strftime(form)
    namespace = f"{tailrace_database.name}.orders"
    outcome = here("watch", tailrace_uri, namespace, "--start-at", moment, "--max", "6")
    assert keys(outcome.lines) == [0, 1, 2, 3, 4, 5]


def test_a_time_that_is_none_is_one_sentence(here: Here, tailrace_uri: str) -> None:
    refused = here("watch", tailrace_uri, "--start-at", "yesterday").sentence
    assert refused.startswith("--start-at takes a time such as 2026-11-17T20:00:00Z")
    assert refused.endswith("not 'yesterday'")
    refused = here("watch", tailrace_uri, "--resume-after", "82zz").sentence
    assert refused.startswith("--resume-after takes a resume token: the hex text of its _data")
    assert "from 1970 to 2106" in here("watch", tailrace_uri, "--start-at", "1950-01-01").sentence


def test_forms_of_the_output(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str
) -> None:
    base = ("watch", tailrace_uri, f"{tailrace_database.name}.orders", "--start-at", started, "--max", "1")
    canonical = here(*base).output.decode()
    relaxed = json.loads(here(*base, "--relaxed").output)
    assert relaxed["fullDocument"] == {"_id": 0, "n": 0}
    assert datetime.fromisoformat(relaxed["wallTime"]["$date"]).year >= 2024
    pretty = here(*base, "--pretty").output.decode()
    assert json.loads(pretty) == json.loads(canonical)
    assert '\n  "operationType": "insert",\n' in pretty
    coloured = here(*base, "--color", "always").output.decode()
    assert '\x1b[32m"insert"\x1b[0m' in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == canonical
    assert "\x1b" not in canonical


def test_a_command_runs_for_each_event_until_it_fails(
    here: Here, tailrace_uri: str, tailrace_database: Database[Document], started: str, tmp_path: Path
) -> None:
    namespace = f"{tailrace_database.name}.orders"
    token_file, seen = tmp_path / "token", tmp_path / "seen"
    base = ("watch", tailrace_uri, namespace, "--start-at", started, "--token-file", token_file, "--relaxed")
    fails = (
        f"cat > {tmp_path}/event && ! grep -q '\"n\": 2' {tmp_path}/event && cat {tmp_path}/event >> {seen}"
    )
    outcome = here(*base, "--exec", fails)
    assert outcome.code == 1
    assert "the command of --exec ended with exit code 1" in outcome.sentence
    assert outcome.output == b""
    # the event that failed is the first of the next run
    assert here(*base, "--exec", f"cat >> {seen}", "--max", "4").code == 0
    assert [json.loads(line)["fullDocument"]["n"] for line in seen.read_text().splitlines()] == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]


def test_events_are_written_to_parquet(
    here: Here,
    tailrace_uri: str,
    tailrace_database: Database[Document],
    started: str,
    tokens: list[str],
    tmp_path: Path,
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    namespace = f"{tailrace_database.name}.orders"
    base = ("watch", tailrace_uri, namespace, "--start-at", started, "--max", "3")
    file, folder, token_file = tmp_path / "events.parquet", tmp_path / "folder", tmp_path / "token"
    assert here(*base, "--into", file).code == 0
    rows = pq.read_table(file).to_pylist()
    assert [row["token"] for row in rows] == tokens[:3]
    assert rows[0]["ns"] == {"db": tailrace_database.name, "coll": "orders"}
    assert json.loads(rows[1]["fullDocument"])["n"] == {"$numberInt": "1"}
    assert json.loads(rows[1]["event"])["operationType"] == rows[1]["operationType"] == "insert"
    assert "exists" in here(*base, "--into", file).sentence
    for _ in range(2):
        assert here(*base, "--into", folder, "--token-file", token_file).code == 0
    written = [row["token"] for path in sorted(folder.iterdir()) for row in pq.read_table(path).to_pylist()]
    assert sorted(written) == tokens


def waiting_streams(client: MongoClient[Document], *, returned: int) -> int:
    """How many clients wait for more events after so many."""
    pipeline: list[Document] = [
        {"$currentOp": {}},
        {"$match": {"op": "getmore", "cursor.nDocsReturned": returned}},
    ]
    return len(list(client.admin.aggregate(pipeline)))


def test_a_signal_to_end_completes_the_file(
    tailrace_uri: str, tailrace_database: Database[Document], started: str, tokens: list[str], tmp_path: Path
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    file, token_file = tmp_path / "events.parquet", tmp_path / "token"
    arguments = ["watch", tailrace_uri, f"{tailrace_database.name}.orders", "--start-at", started]
    arguments += ["--into", str(file), "--token-file", str(token_file)]
    command = [sys.executable, "-m", "tailrace", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        client = tailrace_database.client
        wait_for(lambda: waiting_streams(client, returned=len(tokens)) == 1)
        assert not file.exists()
        process.terminate()
        _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, b"")
    written = [row["token"] for row in pq.read_table(file).to_pylist()]
    assert written == tokens
    assert json.loads(token_file.read_text())["_data"] >= written[-1]


def test_a_stream_that_is_refused_leaves_no_file(here: Here, tailrace_uri: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    outcome = here("watch", tailrace_uri, "--pipeline", '[{"$x": 1}]', "--into", tmp_path / "events.parquet")
    assert outcome.code == 2
    assert "(40324 " in outcome.sentence
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_exclude_each_other(here: Here, tailrace_uri: str) -> None:
    assert "exclude each other" in here("watch", tailrace_uri, "--exec", "cat", "--into", "x").sentence


def test_on_a_terminal_it_says_that_it_is_connected(
    tailrace_uri: str, tailrace_database: Database[Document], started: str
) -> None:
    primary, secondary = pty.openpty()
    arguments = ["watch", tailrace_uri, tailrace_database.name, "--start-at", started, "--max", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "tailrace", *arguments],
        stdout=secondary,
        stderr=secondary,
        check=False,
        timeout=60,
    )
    os.close(secondary)
    shown = os.read(primary, 1 << 16).decode()
    os.close(primary)
    assert done.returncode == 0
    assert shown.startswith(f"watching {tailrace_database.name} at 127.0.0.1:")
    assert '\x1b[32m"insert"' in shown


def test_an_election_while_the_stream_is_opened_is_waited_for(here: Here) -> None:
    with ReplicaSet() as replica_set:
        client = replica_set.client()
        client.shop.orders.insert_one({"_id": 1})
        start = replica_set.cluster_time
        # More often than the driver itself tries to read again.
        fault = {"failCommands": ["aggregate"], "errorCode": 13436}
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 4}, data=fault)
        moment = f'{{"$timestamp": {{"t": {start.time}, "i": {start.inc}}}}}'
        done = here(
            "watch",
            f"{replica_set.uri}&heartbeatFrequencyMS=500",
            "shop.orders",
            "--max",
            "1",
            "--start-at-operation-time",
            moment,
        )
        assert (done.code, done.error) == (0, "")
        assert len(done.lines) == 1
