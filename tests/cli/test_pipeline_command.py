"""`tailrace pipeline` as a user calls it, and as the child of `tailrace serve`."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tailrace.cli.pipeline import duration, size
from tailrace.lake.bulk.kernel import kernel_in_words
from tailrace.lake.table import HistoryTable
from tests.cli.console import Here
from tests.mongod.server.served import served
from tests.support.bulk import generate_bulk

SECONDS = 120


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--history", "h"], "give the source"),
        (["--source", "mongodb://a/", "--shard", "b=c", "--history", "h"], "give the source"),
        (
            ["--source", "mongodb://a/", "mongodb://b/", "--history", "h"],
            "--source takes one connection string",
        ),
        (
            ["--source", "mongodb://a/", "--pre-images", "x", "--history", "h"],
            "--pre-images belongs to archived",
        ),
        (["--source", "mongodb://a/"], "--history"),
        (["--source", "x", "--history", "h", "--trigger", "often"], "often is not a time such as"),
        (["--source", "x", "--history", "h", "--keep-size", "9"], "9 is not a size such as"),
        (["--source", "x", "--history", "h", "--max-entries", "0"], "--max-entries has to be at least 1"),
        (["--source", "/no/such.bson", "--history", "h"], "/no/such.bson"),
        (
            ["--source", "x", "--history", "h", "--spark-conf", "ui"],
            "--spark-conf takes NAME=VALUE, not 'ui'",
        ),
        (["--source", "x", "--history", "h", "--http", "80"], "--http takes HOST:PORT or off, not 80"),
    ],
)
def test_wrong_use_is_reported_before_spark_starts(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = here("pipeline", *options)
    assert outcome.code == 2
    assert words in outcome.sentence
    assert not list(tmp_path.iterdir())


def test_an_unreachable_source_and_a_missing_java(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100"
    outcome = here("pipeline", "--source", uri, "--history", tmp_path / "h")
    assert "the source at 127.0.0.1:1 cannot be reached" in outcome.sentence
    assert outcome.code == 1
    monkeypatch.setattr("tailrace.pipeline.java._homes", lambda _: iter(()))
    outcome = here("pipeline", "--source", uri, "--history", tmp_path / "h")
    assert outcome.code == 2
    assert outcome.sentence.startswith("Spark needs Java 17 or newer, and there is none; install it")


@pytest.mark.slow
def test_archived_oplogs_become_a_history_of_a_limited_size(tmp_path: Path) -> None:
    oplog, history = tmp_path / "oplog.bson", tmp_path / "history"
    oplog.write_bytes(b"".join(generate_bulk(3, 2000)))
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", str(oplog)]
    command += ["--history", str(history)]
    command += ["--master", "local[2]", "--max-entries", "700", "--keep-size", "40kB"]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b""
    log = [json.loads(line) for line in done.stderr.decode().splitlines() if line.startswith("{")]
    assert [line["msg"] for line in log[:2]] == ["Serving the page", "Starting Spark"]
    assert log[-1]["msg"] == "Pipeline ended"
    assert log[-1]["attr"]["rows"] > 2000
    assert log[-1]["attr"]["batches"] >= 3
    tidied = next(line["attr"] for line in log if line["msg"] == "Tidied the history")
    assert tidied["filesGivenUp"] >= 1
    table = HistoryTable.open(history)
    assert 0 < table.rows < log[-1]["attr"]["rows"]
    assert table.begins > 0


def in_session(session: int) -> list[int]:
    """The running processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                state, _, _, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(its_session) == session and state != "Z":
                    found.append(int(folder.name))
    return found


def wait(condition: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.jvm
@pytest.mark.parametrize("moment", ["Starting Spark", "Progress"])
@pytest.mark.parametrize(
    "job", [["pipeline", "--http", "off", "--history"], ["mirror", "--ns", "shop", "--to"]]
)
def test_a_signal_to_the_whole_group_ends_it(
    tailrace_uri: str, tmp_path: Path, job: list[str], moment: str
) -> None:
    """As systemd and a terminal send it: Java may end first."""
    command = [sys.executable, "-m", "tailrace", *job, str(tmp_path / "to"), "--source", tailrace_uri]
    command += ["--master", "local[1]", "--log-format", "json"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True, text=True) as process:
        assert process.stderr is not None
        lines = [json.loads(process.stderr.readline())]
        while lines[-1]["msg"] != moment:
            lines.append(json.loads(process.stderr.readline()))
        wait(lambda: any(is_java(number) for number in in_session(process.pid)))
        os.killpg(process.pid, signal.SIGTERM)
        _, error = process.communicate(timeout=SECONDS)
    lines += [json.loads(line) for line in error.splitlines()]
    assert process.returncode == 0, lines


def is_java(number: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{number}/comm").read_text().strip() == "java"
    return False


@pytest.mark.jvm
def test_a_server_runs_its_pipeline_and_stops_it(here: Here, tmp_path: Path) -> None:
    """Streams read only the history; a failed pipeline is restarted; a killed server leaves no process."""
    kept = (
        "--keep-age",
        "90d",
        "--keep-size",
        "1.5GB",
        "--trigger",
        "0s",
        "--spark-conf",
        "spark.ui.enabled=false",
    )
    with served(tmp_path, "--head", "off", "--spark-master", "local[2,4]", *kept, spark=True) as process:
        with process.client() as client:
            with client.shop.watch(max_await_time_ms=1000) as stream:
                client.shop.orders.insert_one({"_id": 1})
                event = next(stream)
                assert event["documentKey"] == {"_id": 1}

            def status() -> dict[str, Any]:
                shown: dict[str, Any] = client.admin.command("serverStatus")["pipeline"]
                return shown

            wait(lambda: status()["state"] == "running" and status()["lagSeconds"] < 10)
            assert status()["kernel"] == kernel_in_words()
            outcome = here("status", process.uri, "--max-lag", "30s")
            shown = {line.split()[0]: line for line in outcome.lines}
            assert (outcome.code, outcome.lines[-1]) == (0, "healthy")
            assert shown["pipeline"].split()[1] == "running,"
            assert shown["kernel"].endswith(kernel_in_words())
            first = status()["pid"]
            arguments = Path(f"/proc/{first}/cmdline").read_text().split("\0")
            passed = dict(pairwise(arguments))
            assert passed["--spark-conf"] == "spark.ui.enabled=false"
            assert (duration(passed["--keep-age"]), duration(passed["--trigger"])) == (90 * 86400, 0)
            assert size(passed["--keep-size"]) == size("1.5GB")
            os.kill(first, signal.SIGKILL)
            wait(lambda: status()["pid"] not in (first, None))
            second = status()["pid"]
            wait(lambda: not in_session(first))
            assert in_session(second)
        process.kill()
        wait(lambda: not in_session(second))
