"""Run programs in other languages against a server; skip the test with the reason if they cannot run."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import MongoClient

from tailrace.bson.documents import encode
from tailrace.events.resume_token import ResumeToken

Document = dict[str, Any]

FOLDER = Path(__file__).parent
MODULES = FOLDER.parents[1] / ".node" / "node_modules"
MONGOSH = MODULES / ".bin" / "mongosh"
SECONDS = 60


def need(package: str) -> None:
    """Skip the test if there is no Node.js, or `make clients` has not installed this package."""
    if shutil.which("node") is None:
        pytest.skip("there is no Node.js on the path")
    if not (MODULES / package).is_dir():
        pytest.skip(f"{package} is not installed; `make clients` installs it, if npm can reach its registry")


def run(command: list[str | Path], home: Path, **environment: str) -> Document:
    """Run a program; return the document in the last line of its output."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        env={**os.environ, "NODE_PATH": str(MODULES), "HOME": str(home), **environment},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found: Document = json.loads(done.stdout.splitlines()[-1])
    return found


def tokens_since(client: "MongoClient[Document]", database: str, start: Timestamp) -> list[str]:
    """The tokens of all events of a database, as PyMongo sees them."""
    end = client.admin.command("ping")["operationTime"]
    tokens = []
    pipeline = [{"$match": {"ns.db": database}}]
    with client.watch(pipeline, start_at_operation_time=start, max_await_time_ms=20) as stream:
        while True:
            event = stream.try_next()
            if event is not None:
                tokens.append(event["_id"]["_data"])
            elif stream.resume_token is not None and _time(stream.resume_token) >= end:
                return tokens


def _time(token: Any) -> Timestamp:
    time = ResumeToken.parse(encode(token)).cluster_time
    return Timestamp(time >> 32, time & 0xFFFFFFFF)
