"""`pip install tailrace` without an extra: what works then, and the sentence where something is missing."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from pymongo import MongoClient

from tailrace.cli.commands import COMMANDS
from tailrace.cli.spark_needs import PACKAGES
from tests.cli.serving import READY

WITHOUT: str = f"import sys; sys.modules.update(dict.fromkeys({PACKAGES!r}))\n"
"""Python refuses to import what is None in this table, as if it were not installed."""
MAIN = "from tailrace.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
REMEDY = "install it with pip install 'tailrace[spark]'"


def run(program: str, *arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", WITHOUT + program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_every_command_shows_its_options() -> None:
    calls: list[Sequence[str]] = [["--help"], ["config"], *([name, "--help"] for name in COMMANDS)]
    done = run(f"from tailrace.cli.main import main\nprint([main(call) for call in {calls!r}])")
    assert (done.stdout.splitlines()[-1:], done.stderr) == ([str([0] * len(calls))], "")


def test_a_server_serves_streams_and_says_what_a_history_needs() -> None:
    command = [sys.executable, "-c", WITHOUT + MAIN, "serve", "--port", "0", "--http", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = READY.fullmatch(process.stdout.readline())
            assert found, process.communicate(timeout=30)
            with MongoClient[dict[str, object]](found[1]) as client, client.shop.orders.watch() as stream:
                client.shop.orders.insert_one({"_id": 1})
                assert next(stream)["fullDocument"] == {"_id": 1}
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "install them with pip install 'tailrace[spark]'" in log


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["serve", "--source", "mongodb://127.0.0.1:1"], "serve --source needs the package numpy"),
        (["verify", "--source", "FOLDER", "--sink", "FOLDER"], "this command needs the package "),
        (["status", "FOLDER"], "a history needs the package "),
        (["watch", "mongodb://127.0.0.1:1", "--into", "FOLDER"], "--into needs the package "),
    ],
)
def test_what_needs_an_extra_says_so(tmp_path: Path, arguments: list[str], what: str) -> None:
    done = run(MAIN, *(str(tmp_path) if text == "FOLDER" else text for text in arguments))
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"tailrace: {what}")
    assert sentence.endswith(REMEDY)


def test_an_address_without_a_scheme_is_no_history() -> None:
    done = run(MAIN, "status", "localhost:27017")
    assert done.returncode == 2
    assert "a connection string has a scheme: write mongodb://localhost:27017" in done.stdout


def test_a_name_of_the_package_that_needs_an_extra_says_so() -> None:
    done = run("from tailrace import as_of")
    assert done.stderr.splitlines()[-1].startswith("ModuleNotFoundError: tailrace.as_of needs the package ")
    assert done.stderr.splitlines()[-1].endswith(REMEDY)
