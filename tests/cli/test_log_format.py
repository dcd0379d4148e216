"""`--log-format`: every line of every process is JSON, or a line for people."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here

# What libraries, children and Python itself write while a log is JSON.
NOISE = """
import logging, subprocess, sys, warnings
from tailrace.cli.logs.output import log_output
from tailrace.log_lines import fields, logging_to
with log_output("json", sys.argv[1]) as handler, logging_to(handler, sys.argv[1]):
    logging.getLogger("tailrace.pipeline").info("Ours", extra=fields(rows=1))
    logging.getLogger("pymongo.client").error("of a library")
    warnings.warn("careful")
    print("written by hand", file=sys.stderr, flush=True)
    subprocess.run(["sh", "-c", "echo 2026-11-17 10:00:00 ERROR Executor: lost >&2"])
    subprocess.run(["sh", "-c", "printf 'Traceback (most recent):\\\\n  File\\\\nValueError: 1\\\\n' >&2"])
"""


def lines(level: str) -> list[dict[str, object]]:
    done = subprocess.run([sys.executable, "-c", NOISE, level], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_whatever_is_written_is_a_line_of_json() -> None:
    found = {str(line["msg"]): line for line in lines("info")}
    assert found["Ours"]["c"] == "PIPELINE"
    assert (found["of a library"]["s"], found["of a library"]["c"]) == ("E", "CLIENT")
    assert any("careful" in message for message in found)
    assert found["written by hand"]["s"] == "I"
    assert found["2026-11-17 10:00:00 ERROR Executor: lost"]["s"] == "E"
    trace = found["Traceback (most recent):"]
    assert (trace["s"], trace["attr"]) == ("E", {"text": "  File\nValueError: 1"})


def test_text_of_others_has_a_level() -> None:
    messages = [line["msg"] for line in lines("error")]
    assert min(map(str, messages)).endswith("Executor: lost")
    assert not {"written by hand", "Ours"}.intersection(messages)


BREAKS = "import os\nreading, writing = os.pipe()\nos.close(reading)\nos.write(writing, b'1')\n"


def test_a_worker_of_spark_whose_reader_has_ended_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "daemon.py").write_text(BREAKS)
    (tmp_path / "called.py").write_text(BREAKS)
    (tmp_path / "calling").mkdir()
    (tmp_path / "calling" / "daemon.py").write_text("import called")
    noise = (
        "import subprocess, sys\n"
        "from tailrace.cli.logs.output import log_output\n"
        "with log_output('json', 'debug'):\n"
        "    subprocess.run([sys.executable, sys.argv[1]])\n"
    )

    def logged(script: Path) -> list[dict[str, object]]:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, "-c", noise, script], capture_output=True, text=True, check=True, env=environment
        )
        return [json.loads(line) for line in done.stderr.splitlines()]

    assert "BrokenPipeError" in str(logged(tmp_path / "daemon.py"))
    assert {line["s"] for line in logged(tmp_path / "daemon.py")} <= {"D", "D1"}
    # What the daemon has called is not its own connection.
    assert "E" in {line["s"] for line in logged(tmp_path / "calling" / "daemon.py")}


def test_an_error_at_the_end_is_a_line_of_json_too(here: Here, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    options = ("serve", "--no-spark", "--data", tmp_path / "file" / "data")
    plain = here(*options)
    outcome = here(*options, "--log-format", "json")
    line = json.loads(outcome.error.splitlines()[-1])
    assert outcome.code == plain.code == 2
    assert line["attr"] == {"error": plain.sentence, "exitCode": 2}


def test_a_server_logs_text_on_a_terminal() -> None:
    primary, secondary = pty.openpty()
    command = [sys.executable, "-m", "tailrace", "serve", "--port", "0", "--no-spark"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=secondary, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready ")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
    os.close(secondary)
    shown = os.read(primary, 1 << 16).decode()
    os.close(primary)
    assert re.match(r"\d\d:\d\d:\d\d INFO    [A-Z]+ +\S", shown)


@pytest.mark.slow
@pytest.mark.usefixtures("java")
def test_an_outage_of_the_source_is_lines_of_json(tmp_path: Path) -> None:
    replica_set = ReplicaSet().start()
    replica_set.client().shop.orders.insert_one({"_id": 1})
    command = [sys.executable, "-m", "tailrace", "pipeline", "--source", replica_set.uri, "--trigger", "0s"]
    command += ["--history", str(tmp_path / "history"), "--log-format", "json"]
    log = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        ending = threading.Timer(200, process.kill)
        ending.start()
        for line in process.stderr:
            log.append(json.loads(line))
            if log[-1]["msg"] == "Progress":
                replica_set.stop()
            if log[-1]["msg"] == "Trying again":
                process.send_signal(signal.SIGTERM)
        ending.cancel()
    assert process.returncode == 0
    assert {"Progress", "Trying again", "Pipeline ended"} <= {line["msg"] for line in log}
    reasons = [line["attr"]["reason"] for line in log if line["msg"] == "Trying again"]
    assert not [reason for reason in reasons if "full error" in reason or "timeouts" in reason]
