"""The state of a killed server after a restart; `tests/laws/test_wire_once.py` has the law."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from bson import Int64, Timestamp
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, OperationFailure

from tests.mongod.server.running import wait_for
from tests.mongod.server.served import ServedProcess, served

Document = dict[str, Any]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    with served(tmp_path_factory.mktemp("killed"), "--log-level", "warning") as started:
        yield started
        assert started.faults() == []


@pytest.fixture
def client(process: ServedProcess) -> Iterator["MongoClient[Document]"]:
    with process.client() as connected:
        yield connected


def kill_and_start(process: ServedProcess) -> None:
    process.kill()
    process.start()


def entries(client: "MongoClient[Document]", namespace: str) -> list[Document]:
    return list(client.local["oplog.rs"].find({"ns": namespace}))


def test_acknowledged_writes_survive_and_unfinished_ones_do_not(
    process: ServedProcess, client: "MongoClient[Document]"
) -> None:
    """One kill, checked on documents, indexes, options, retries, transactions, streams and terms."""
    shop = client.shop
    shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    shop.orders.create_index("item", unique=True)
    stream = shop.orders.watch(full_document_before_change="required")
    shop.orders.insert_one({"_id": 1, "item": "teapot"})
    first = next(stream)
    shop.orders.update_one({"_id": 1}, {"$set": {"qty": 2}})
    retrying, transacting = client.start_session(), client.start_session()
    increment = [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}]
    statement = {"update": "counters", "updates": increment, "txnNumber": Int64(1000)}
    assert shop.command(dict(statement), session=retrying)["n"] == 1
    transacting.start_transaction()
    shop.orders.insert_one({"_id": 99, "item": "cup"}, session=transacting)
    cursor = shop.command({"find": "orders", "batchSize": 0})["cursor"]["id"]
    term = client.admin.command("replSetGetStatus")["term"]
    (before,) = shop.list_collections(filter={"name": "orders"})

    kill_and_start(process)

    assert shop.orders.find_one({"_id": 1}) == {"_id": 1, "item": "teapot", "qty": 2}
    assert list(shop.list_collections(filter={"name": "orders"})) == [before]
    with pytest.raises(OperationFailure) as failure:
        shop.orders.insert_one({"item": "teapot"})
    assert failure.value.code == 11000
    # The retried statement is recognised; nothing is counted twice.
    again = shop.command(dict(statement), session=retrying)
    assert again["retriedStmtIds"] == [0]
    assert shop.counters.find_one({"_id": 1}) == {"_id": 1, "n": 1}
    assert len(entries(client, "shop.counters")) == 1
    # The open transaction and its locks are gone with the process.
    assert shop.orders.find_one({"_id": 99}) is None
    with pytest.raises(OperationFailure) as failure:
        transacting.commit_transaction()
    assert failure.value.code == 251
    shop.orders.insert_one({"_id": 99, "item": "cup"})
    with pytest.raises(OperationFailure) as failure:
        shop.command("getMore", cursor, collection="orders")
    assert failure.value.code == 43
    # The driver resumes the stream after what it has shown; the image still exists.
    update = next(stream)
    assert (update["operationType"], update["fullDocumentBeforeChange"]) == (
        "update",
        {"_id": 1, "item": "teapot"},
    )
    assert update["clusterTime"] > first["clusterTime"]
    stream.close()
    retrying.end_session()
    transacting.end_session()
    assert client.admin.command("replSetGetStatus")["term"] == term + 1
    assert entries(client, "")[-1]["o"] == {"msg": "new primary"}


def test_cluster_times_after_a_kill_are_later(
    process: ServedProcess, client: "MongoClient[Document]"
) -> None:
    """Times that clients have seen are never used again, even if they were ahead of the clock."""
    now = client.admin.command("ping")["$clusterTime"]
    ahead = Timestamp(now["clusterTime"].time + 1000, 1)
    with client.start_session() as session:
        session.advance_cluster_time({**now, "clusterTime": ahead})
        note = client.admin.command({"appendOplogNote": 1, "data": {}}, session=session)
    kill_and_start(process)
    with process.client() as other:
        after = other.admin.command({"appendOplogNote": 1, "data": {}})["operationTime"]
    assert after > note["operationTime"] > ahead


def test_an_interrupted_drop_is_finished_later(
    process: ServedProcess, client: "MongoClient[Document]"
) -> None:
    large = client.shop.large
    large.insert_many([{"_id": number, "text": "x" * 50} for number in range(20_000)])
    large.drop()
    kill_and_start(process)
    assert client.shop.large.count_documents({}) == 0
    large.insert_one({"_id": 1})
    assert [document["_id"] for document in large.find()] == [1]
    assert client.shop.command("validate", "large")["valid"]


def test_a_write_without_a_reply_is_complete_or_absent(
    process: ServedProcess, client: "MongoClient[Document]"
) -> None:
    """The server is killed while it works on a batch; ordered inserts leave a prefix of it."""
    batch = [{"_id": number} for number in range(20_000)]
    with process.client(retryWrites=False, w=0) as sender:
        sender.shop.half.insert_many(batch)
        kill_and_start(process)
    found = [document["_id"] for document in client.shop.half.find()]
    assert found == list(range(len(found)))
    condition = {"$or": [{"ns": "shop.half"}, {"o.applyOps.ns": "shop.half"}]}
    logged = [
        operation["o"]["_id"]
        for entry in client.local["oplog.rs"].find(condition)
        for operation in entry["o"].get("applyOps", [entry])
    ]
    assert logged == found


def test_an_index_that_was_being_built_is_discarded(
    process: ServedProcess, client: "MongoClient[Document]"
) -> None:
    lists = client.builds.lists
    lists.insert_many([{"_id": n, "list": list(range(n, n + 200))} for n in range(300)])
    index = {"key": {"list": 1}, "name": "list_1"}

    def build() -> None:
        with process.client(retryWrites=False) as other, suppress(AutoReconnect):
            other.builds.command("createIndexes", "lists", indexes=[index])

    building = threading.Thread(target=build)
    building.start()
    wait_for(lambda: bool(entries(client, "builds.$cmd")[1:]))
    kill_and_start(process)
    building.join()
    assert list(lists.index_information()) == ["_id_"]
    _, start, abort = (entry["o"] for entry in entries(client, "builds.$cmd"))
    assert (start["startIndexBuild"], abort["abortIndexBuild"]) == ("lists", "lists")
    assert (abort["indexBuildUUID"], abort["cause"]["code"]) == (start["indexBuildUUID"], 11600)
    lists.create_index("list")
    assert client.builds.command("validate", "lists")["keysPerIndex"] == {"_id_": 300, "list_1": 60_000}
    assert lists.find_one({"list": 498}, {"_id": 1}) == {"_id": 299}


def test_another_server_cannot_use_the_data_until_the_first_has_ended(process: ServedProcess) -> None:
    command = [sys.executable, "-m", "tailrace", "serve", "--no-spark", "--port", "0"]
    command += ["--data", str(process.data)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 2
    assert "is used by another server" in refused.stderr
    assert refused.stdout == ""
    kill_and_start(process)


def test_a_client_without_retries_gets_an_error(process: ServedProcess) -> None:
    with process.client(retryWrites=False, serverSelectionTimeoutMS=500) as client:
        client.admin.command("ping")
        process.kill()
        try:
            with pytest.raises(AutoReconnect):
                client.shop.orders.insert_one({})
        finally:
            process.start()
