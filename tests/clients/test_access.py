"""Drivers log in as they are: PyMongo's two clients, the Node.js driver and mongosh."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import AsyncMongoClient
from pymongo.errors import OperationFailure

from tailrace.testing.replica_set import ReplicaSet
from tests.clients.programs import FOLDER, MODULES, MONGOSH, Document, need, run

PASSWORD = "p: @/%\u00e4"
Program = Callable[[str, Path, str], Document]


@pytest.fixture(scope="module")
def guarded() -> Iterator[ReplicaSet]:
    with ReplicaSet(auth=True, first_user=("root", PASSWORD), members=2) as replica_set:
        root = replica_set.client(username="root", password=PASSWORD)
        root.shop.orders.insert_one({"_id": 1})
        root.shop.command("createUser", "reader", pwd=PASSWORD, roles=["read"])
        root.shop.command("createUser", "old", pwd=PASSWORD, roles=["read"], mechanisms=["SCRAM-SHA-1"])
        yield replica_set


def uri_of(replica_set: ReplicaSet, user: str, password: str = PASSWORD, source: str = "shop") -> str:
    secret = f"{user}:{quote(password, safe='')}@"
    return replica_set.uri.replace("://", f"://{secret}") + f"&authSource={source}"


def run_node(uri: str, home: Path, database: str) -> Document:
    need("mongodb")
    return run(["node", FOLDER / "node_access.js", uri, database], home)


def run_mongosh(uri: str, home: Path, database: str) -> Document:
    need("mongosh")
    script = FOLDER / "mongosh_access.js"
    return run([MONGOSH, uri, "--quiet", "--norc", "--file", script], home, TAILRACE_DATABASE=database)


@pytest.mark.parametrize("user", ["reader", "old"])
@pytest.mark.parametrize("program", [run_node, run_mongosh])
def test_a_program_logs_in(program: Program, user: str, guarded: ReplicaSet, tmp_path: Path) -> None:
    seen = program(uri_of(guarded, user), tmp_path, "shop")
    assert seen == {"user": user, "found": 1, "insert": 13, "watch": 13, "stream": None}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-1", "SCRAM-SHA-256"])
def test_the_node_driver_with_each_mechanism(mechanism: str, guarded: ReplicaSet, tmp_path: Path) -> None:
    uri = uri_of(guarded, "reader") + f"&authMechanism={mechanism}"
    assert run_node(uri, tmp_path, "shop")["user"] == "reader"


def test_a_wrong_password_in_node(guarded: ReplicaSet, tmp_path: Path) -> None:
    need("mongodb")
    assert MODULES.is_dir()
    seen = run(["node", FOLDER / "node_access.js", uri_of(guarded, "reader", "wrong"), "shop"], tmp_path)
    assert seen == {"error": 18}


def test_the_asynchronous_client(guarded: ReplicaSet) -> None:
    async def work() -> None:
        client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri_of(guarded, "reader"))
        async with client:
            await asyncio.gather(*(client.shop.orders.find_one() for _ in range(20)))
            with pytest.raises(OperationFailure) as failure:
                await client.shop.orders.insert_one({})
            assert failure.value.code == 13
            async with await client.shop.orders.watch(max_await_time_ms=50) as stream:
                assert await stream.try_next() is None
        wrong: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(uri_of(guarded, "reader", "wrong"))
        async with wrong:
            with pytest.raises(OperationFailure) as failure:
                await wrong.shop.orders.find_one()
            assert failure.value.code == 18

    asyncio.run(work())
