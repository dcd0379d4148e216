"""The audit log: what is in it, and what is not."""

import json
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tailrace.errors import UsageError
from tailrace.mongod.server.admin.audit import AuditLog
from tailrace.testing.sharded_cluster import ShardedCluster
from tests.mongod.server.access.conftest import ROOT
from tests.mongod.server.running import Document, RunningServer, connected, running

SECRETS = (ROOT[1], "hidden word", "guessed word")


class Audited:
    def __init__(self, server: RunningServer, root: MongoClient[Document], path: Path) -> None:
        self.server = server
        self.root = root
        self.path = path

    def lines(self) -> list[Document]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def new(self, before: int) -> list[Document]:
        """The lines after so many, without log-ins of the drivers' further connections."""
        return [line for line in self.lines()[before:] if line["atype"] != "authenticate"]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    path = tmp_path_factory.mktemp("audit") / "audit.log"
    with (
        closing(AuditLog(path)) as audit,
        running(auth=True, first_user=ROOT, audit=audit) as server,
        connected(server, username=ROOT[0], password=ROOT[1]) as root,
    ):
        root.admin.command("ping")
        yield Audited(server, root, path)


def test_a_line_has_mongodbs_fields(audited: Audited) -> None:
    before = len(audited.lines())
    audited.root.shop.create_collection("orders")
    [line] = audited.new(before)
    assert list(line) == ["atype", "ts", "local", "remote", "users", "roles", "param", "result"]
    assert list(line["ts"]) == ["$date"]
    assert line["local"] == {"ip": "127.0.0.1", "port": audited.server.address[1]}
    assert line["remote"]["ip"] == "127.0.0.1"
    assert line["users"] == [{"user": "root", "db": "admin"}]
    assert line["roles"] == [{"role": "root", "db": "admin"}]
    assert (line["atype"], line["param"], line["result"]) == ("createCollection", {"ns": "shop.orders"}, 0)


def test_collections_that_statements_create(audited: Audited) -> None:
    before = len(audited.lines())
    made = audited.root.made
    made.a.insert_many([{}, {}])
    made.a.insert_one({})
    made.b.update_one({}, {"$set": {"x": 1}}, upsert=True)
    made.c.find_one_and_update({}, {"$set": {"x": 1}}, upsert=True)
    made.a.aggregate([{"$out": "d"}])
    made.a.aggregate([{"$merge": "e"}])
    made.none.update_one({}, {"$set": {"x": 1}})
    with audited.root.start_session() as session, session.start_transaction():
        made.f.insert_one({}, session=session)
    lines = [(line["atype"], line["param"], line["result"]) for line in audited.new(before)]
    assert lines == [("createCollection", {"ns": f"made.{name}"}, 0) for name in "abcdef"]


def test_only_the_server_can_read_the_file(audited: Audited) -> None:
    assert stat.S_IMODE(audited.path.stat().st_mode) == 0o600


def test_log_ins_and_failures(audited: Audited) -> None:
    before = len(audited.lines())
    with (
        connected(audited.server, username="root", password=SECRETS[2]) as client,
        pytest.raises(OperationFailure),
    ):
        client.admin.command("ping")
    with connected(audited.server, username=ROOT[0], password=ROOT[1]) as client:
        client.admin.command("ping")
    lines = [line for line in audited.lines()[before:] if line["atype"] == "authenticate"]
    param = {"user": "root", "db": "admin", "mechanism": "SCRAM-SHA-256"}
    assert {line["result"] for line in lines} == {0, 18}
    assert all(line["param"] == param for line in lines)


def test_changes_and_refusals(audited: Audited) -> None:
    root, server = audited.root, audited.server
    before = len(audited.lines())
    shop = root.shop
    shop.command("createRole", "clerk", privileges=[], roles=["read"])
    shop.command("createUser", "ann", pwd=SECRETS[1], roles=["clerk"], customData={"hint": SECRETS[1]})
    shop.command("updateUser", "ann", pwd=SECRETS[1] + "!")
    shop.command("grantRolesToUser", "ann", roles=["read"])
    shop.items.create_index("n")
    shop.items.drop_index("n_1")
    shop.items.rename("things")
    with pytest.raises(OperationFailure):
        root.admin.command("renameCollection", "shop.none", to="shop.other")
    with connected(server, username="ann", password=SECRETS[1] + "!", authSource="shop") as ann:
        with pytest.raises(OperationFailure):
            ann.shop.command("updateUser", "ann", pwd=SECRETS[1])
        ann.shop.command("logout")
    shop.things.drop()
    shop.command("dropUser", "ann")
    root.drop_database("shop")
    lines = audited.new(before)
    assert [
        (line["atype"], line["result"])
        for line in lines
        if line["users"] == [{"user": "root", "db": "admin"}]
    ] == [
        ("createRole", 0),
        ("createUser", 0),
        ("updateUser", 0),
        ("grantRolesToUser", 0),
        ("createCollection", 0),
        ("createIndex", 0),
        ("dropIndex", 0),
        ("renameCollection", 0),
        ("renameCollection", 26),
        ("dropCollection", 0),
        ("dropUser", 0),
        ("dropDatabase", 0),
    ]
    found = {line["atype"]: line["param"] for line in reversed(lines)}
    assert found["createUser"] == {"user": "ann", "db": "shop", "roles": ["clerk"]}
    assert found["updateUser"] == {"user": "ann", "db": "shop", "passwordChanged": True}
    assert found["createIndex"]["indexName"] == "n_1"
    assert found["renameCollection"] == {"old": "shop.items", "new": "shop.things"}
    refused = next(line for line in lines if line["atype"] == "authCheck")
    assert (refused["result"], refused["users"]) == (13, [{"user": "ann", "db": "shop"}])
    assert refused["param"]["command"] == "updateUser"
    assert refused["param"]["args"]["pwd"] == "xxx"
    assert found["logout"]["initialUsers"] == [{"user": "ann", "db": "shop"}]
    text = audited.path.read_text()
    assert not [secret for secret in SECRETS if secret in text]


def test_the_file_is_opened_again(audited: Audited) -> None:
    moved = audited.path.with_suffix(".old")
    audited.path.rename(moved)
    audited.root.admin.command("logRotate", "audit")
    audited.root.admin.create_collection("after")
    assert [line["atype"] for line in audited.new(0)] == ["createCollection"]
    assert moved.exists()


def test_a_cluster_writes_each_command_once(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    with closing(AuditLog(path)) as audit, ShardedCluster(shards=2, audit=audit) as cluster:
        client = cluster.client()
        client.admin.command("enableSharding", "shop")
        client.admin.command("shardCollection", "shop.orders", key={"_id": "hashed"})
        client.shop.orders.create_index("n")
        client.shop.orders.drop()
        client.shop.others.insert_one({})
    found = [json.loads(line)["atype"] for line in path.read_text().splitlines()]
    assert found == [
        "enableSharding",
        "shardCollection",
        "createIndex",
        "dropCollection",
        "createCollection",
    ]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be written: .*; name another file with --audit-log"):
        AuditLog(tmp_path / "none" / "audit.log")
