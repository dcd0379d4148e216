"""MongoDB's own tools: dump, restore, replay of oplogs, top, stat, export and import."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from pymongo import MongoClient

from tailrace.testing.replica_set import ReplicaSet
from tests.cli.console import Here
from tools.get_mongo_tools import folder

Document = dict[str, Any]
SECONDS = 60


def tool(name: str, *arguments: str | Path, given: str = "") -> str:
    """Run one of the tools; skip the test if it is not there. Returns all of its output."""
    path = shutil.which(name, path=str(folder().absolute())) or shutil.which(name)
    if path is None:
        pytest.skip(f"there is no {name} on the path or in {folder()}; `make mongo-tools` builds it")
    done = subprocess.run(
        [path, *map(str, arguments)],
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def replica_set() -> Iterator[ReplicaSet]:
    with ReplicaSet() as replica_set:
        yield replica_set


@pytest.fixture
def client(replica_set: ReplicaSet) -> "MongoClient[Document]":
    client = replica_set.client()
    shop = client.shop
    shop.orders.insert_many([{"_id": number, "item": f"item {number}"} for number in range(300)])
    shop.orders.create_index([("item", 1)], unique=True)
    shop.create_collection("recent", capped=True, size=4096)
    shop.create_collection("lamps", viewOn="orders", pipeline=[{"$match": {"item": "item 7"}}])
    return client


def content(client: "MongoClient[Document]", database: str) -> Document:
    """What a database contains, without the UUIDs of its collections."""
    found = {}
    for info in client[database].list_collections():
        name = info["name"]
        if name == "system.views":
            continue
        indexes = [] if info["type"] == "view" else list(client[database][name].list_indexes())
        documents = sorted(client[database][name].find(), key=lambda each: str(each["_id"]))
        found[name] = info["type"], info["options"], indexes, documents
    return found


@pytest.mark.parametrize("form", ["folder", "archive", "archive.gz"])
def test_a_dump_is_restored(
    replica_set: ReplicaSet, client: "MongoClient[Document]", tmp_path: Path, form: str
) -> None:
    place = tmp_path / "dump"
    options = [f"--out={place}"] if form == "folder" else [f"--archive={place}"]
    options += ["--gzip"] if form.endswith("gz") else []
    before = content(client, "shop")
    tool("mongodump", "--uri", replica_set.uri, *options)
    client.drop_database("shop")
    restored = [str(place)] if form == "folder" else options
    said = tool("mongorestore", "--uri", replica_set.uri, "--drop", *restored)
    assert "0 document(s) failed to restore" in said
    assert content(client, "shop") == before


def test_an_oplog_is_replayed_by_mongorestore(
    replica_set: ReplicaSet, client: "MongoClient[Document]", tmp_path: Path
) -> None:
    """The dump is taken while documents are written, so it is consistent only with its oplog."""
    is_over = Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            with client.start_session() as session, session.start_transaction():
                client.shop.orders.update_one({"_id": number % 300}, {"$set": {"n": number}}, session=session)
                client.shop.orders.insert_one({"item": f"new {number}"}, session=session)
            number += 1

    writer = Thread(target=write)
    writer.start()
    try:
        tool("mongodump", "--uri", replica_set.uri, "--oplog", "--out", tmp_path)
    finally:
        is_over.set()
        writer.join()
    with ReplicaSet() as other:
        tool("mongorestore", "--uri", other.uri, "--oplogReplay", tmp_path)
        orders = other.client().shop.orders
        # Every transaction that is there is there completely.
        updates = [each["n"] for each in orders.find({"n": {"$exists": True}})]
        inserts = [int(each["item"].split()[1]) for each in orders.find({"item": {"$regex": "^new"}})]
    assert max(updates, default=-1) == max(inserts, default=-1)
    assert sorted(inserts) == list(range(len(inserts)))


def test_the_oplog_of_an_archive_is_replayed_here(
    replica_set: ReplicaSet, client: "MongoClient[Document]", tmp_path: Path, here: Here
) -> None:
    local = ("--uri", replica_set.uri, "--db", "local", "--collection", "oplog.rs")
    tool("mongodump", *local, "--out", tmp_path)
    wanted = here("replay", tmp_path / "local" / "oplog.rs.bson").output
    assert wanted.count(b"\n") >= 300
    for options in ((), ("--gzip",)):
        archive = tmp_path / f"archive{len(options)}"
        tool("mongodump", *local, f"--archive={archive}", *options)
        outcome = here("replay", archive)
        assert (outcome.code, outcome.output) == (0, wanted)
    tool("mongodump", "--uri", replica_set.uri, "--oplog", f"--archive={tmp_path / 'all'}")
    assert here("replay", tmp_path / "all").code == 0


def test_top_and_stat_show_what_happens(replica_set: ReplicaSet, client: "MongoClient[Document]") -> None:
    shown = json.loads(
        tool("mongotop", "--uri", replica_set.uri, "--json", "--rowcount=1", "1").splitlines()[0]
    )
    assert set(shown["totals"]["shop.orders"]) == {"total", "read", "write"}
    said = tool("mongostat", "--uri", replica_set.uri, "--json", "--rowcount=1", "1")
    (row,) = json.loads(said.splitlines()[0]).values()
    assert row["set"] == "rs0"


def test_documents_are_exported_and_imported(
    replica_set: ReplicaSet, client: "MongoClient[Document]", tmp_path: Path
) -> None:
    target, source = ("--uri", replica_set.uri), tmp_path / "orders.json"
    tool("mongoexport", *target, "--db=shop", "--collection=orders", f"--out={source}")
    tool("mongoimport", *target, "--db=copy", "--collection=orders", source)
    assert list(client.copy.orders.find(sort=[("_id", 1)])) == list(
        client.shop.orders.find(sort=[("_id", 1)])
    )


def test_a_dump_is_shown_by_bsondump(
    replica_set: ReplicaSet, client: "MongoClient[Document]", tmp_path: Path
) -> None:
    tool("mongodump", "--uri", replica_set.uri, "--db=shop", "--out", tmp_path)
    lines = tool("bsondump", "--quiet", tmp_path / "shop" / "orders.bson").splitlines()
    assert len([line for line in lines if line.startswith("{")]) == 300
