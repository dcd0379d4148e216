"""The Node.js driver and mongosh connect, write, transact, watch, drop and resume."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from tests.clients.programs import FOLDER, MONGOSH, Document, need, run, tokens_since

Run = Callable[[str, Path, str], Document]


def run_node(uri: str, home: Path, database: str) -> Document:
    need("mongodb")
    return run(["node", FOLDER / "node_driver.js", uri, database], home)


def run_mongosh(uri: str, home: Path, database: str) -> Document:
    need("mongosh")
    script = FOLDER / "mongosh_session.js"
    return run([MONGOSH, uri, "--quiet", "--norc", "--file", script], home, TAILRACE_DATABASE=database)


@pytest.mark.parametrize("program", [run_node, run_mongosh])
def test_a_program_runs_and_sees_the_tokens_that_pymongo_sees(
    program: Run,
    tailrace_uri: str,
    tailrace_client: "MongoClient[Document]",
    tailrace_database: Database[Document],
    tmp_path: Path,
) -> None:
    start = tailrace_client.admin.command("ping")["operationTime"]
    seen = program(tailrace_uri, tmp_path, tailrace_database.name)["tokens"]
    everything = tokens_since(tailrace_client, tailrace_database.name, start)
    assert seen
    assert [token for token in everything if token in seen] == seen
