"""The entries of `local.oplog.rs`, including the order of their fields."""

from itertools import pairwise
from typing import Any

import pytest
from bson import Int64
from pymongo.database import Database

from tests.mongod.server.oplog import entries
from tests.mongod.server.running import Document, RunningServer, connected

SHAPES: dict[str, list[str]] = {
    "plain": ["op", "ns", "ui", "o", "o2", "ts", "t", "v", "wall"],
    "deleted": ["op", "ns", "ui", "o", "ts", "t", "v", "wall"],
    "retryable": [
        "lsid", "txnNumber", "op", "ns", "ui", "o", "o2", "stmtId", "ts", "t", "v", "wall", "prevOpTime",
    ],
}  # fmt: skip


@pytest.fixture
def capped(database: Database[Document]) -> Database[Document]:
    database.create_collection("log", capped=True, size=100_000, max=2)
    return database


def changes(server: RunningServer, database: str) -> list[Document]:
    """The database's entries without those of its catalog."""
    return [entry for entry in entries(server, database) if entry["ns"] != f"{database}.$cmd"]


def shown(entry: Document) -> tuple[str, Any]:
    return entry["op"], entry["o"]["_id"]


def test_inserts_into_a_full_capped_collection_log_deletes(
    server: RunningServer, capped: Database[Document]
) -> None:
    capped.log.insert_many([{"_id": number} for number in range(4)])
    logged = changes(server, capped.name)
    assert [shown(entry) for entry in logged] == [
        ("i", 0), ("i", 1), ("i", 2), ("d", 0), ("i", 3), ("d", 1),
    ]  # fmt: skip
    for entry in logged:
        assert list(entry) == SHAPES["retryable" if entry["op"] == "i" else "deleted"]


def test_entries_of_one_second_have_consecutive_times(
    server: RunningServer, capped: Database[Document]
) -> None:
    capped.log.insert_many([{"_id": number} for number in range(4)])
    times = [entry["ts"] for entry in changes(server, capped.name)]
    steps = {later.inc - earlier.inc for earlier, later in pairwise(times) if later.time == earlier.time}
    assert steps == {1}


def test_a_stream_shows_deletes_of_a_capped_collection(capped: Database[Document]) -> None:
    capped.command("collMod", "log", changeStreamPreAndPostImages={"enabled": True})
    with capped.log.watch(full_document_before_change="required") as stream:
        for number in range(3):
            capped.log.insert_one({"_id": number})
        events = [next(stream) for _ in range(4)]
    assert [event["operationType"] for event in events] == ["insert", "insert", "insert", "delete"]
    assert events[-1]["fullDocumentBeforeChange"] == {"_id": 0}


def test_a_retried_insert_into_a_capped_collection_is_not_done_again(
    server: RunningServer, capped: Database[Document]
) -> None:
    capped.log.insert_many([{"_id": 0}, {"_id": 1}])
    command = {"insert": "log", "documents": [{"_id": 2}, {"_id": 3}], "txnNumber": Int64(1)}
    # Its own client: the shared one's pool would reuse the session with its numbers.
    with connected(server) as client, client.start_session() as session:
        replies = [client[capped.name].command(command, session=session) for _ in range(2)]
    assert [reply["n"] for reply in replies] == [2, 2]
    assert [shown(entry) for entry in changes(server, capped.name)[2:]] == [
        ("i", 2), ("d", 0), ("i", 3), ("d", 1),
    ]  # fmt: skip


def test_the_set_begins_before_its_first_election(server: RunningServer) -> None:
    first, second = server.oplog()[:2]
    assert [(entry["o"]["msg"], entry["t"]) for entry in (first, second)] == [
        ("initiating set", -1),
        ("new primary", 1),
    ]
    assert list(first) == ["op", "ns", "o", "ts", "t", "v", "wall"]
