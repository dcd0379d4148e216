"""What a driver does when fail points act on its handshake, its monitor, its writes and its transactions."""

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.client_session import ClientSession
from pymongo.errors import AutoReconnect, OperationFailure, ServerSelectionTimeoutError
from pymongo.event_loggers import ConnectionPoolLogger
from pymongo.monitoring import PoolClearedEvent

from tests.mongod.server.running import Document, RunningServer, connected


class Cleared(ConnectionPoolLogger):
    """Counts how often the driver cleared a pool."""

    times = 0

    def pool_cleared(self, event: PoolClearedEvent) -> None:
        super().pool_cleared(event)
        self.times += 1


@pytest.fixture
def admin(server: RunningServer) -> Iterator[MongoClient[Document]]:
    """A client that no fail point of these tests concerns."""
    with connected(server) as client:
        yield client
        for name in ("failCommand", "onPrimaryTransactionalWrite"):
            client.admin.command("configureFailPoint", name, mode="off")


def fail(admin: MongoClient[Document], name: str, mode: Any, **data: Any) -> None:
    admin.admin.command("configureFailPoint", name, mode=mode, data=data)


@pytest.mark.parametrize("action", [{"errorCode": 91}, {"closeConnection": True}])
def test_no_server_is_selected_while_hello_fails(
    server: RunningServer, admin: MongoClient[Document], action: Document
) -> None:
    names = ["hello", "isMaster"]
    fail(admin, "failCommand", "alwaysOn", failCommands=names, appName="unlucky", **action)
    with (
        connected(server, appName="unlucky", serverSelectionTimeoutMS=300) as client,
        pytest.raises(ServerSelectionTimeoutError),
    ):
        client.admin.command("ping")
    with connected(server, appName="lucky", serverSelectionTimeoutMS=30_000) as client:
        client.admin.command("ping")


def test_a_handshake_that_takes_too_long(server: RunningServer, admin: MongoClient[Document]) -> None:
    data = {"failCommands": ["hello", "isMaster"], "appName": "slow"}
    fail(admin, "failCommand", "alwaysOn", blockConnection=True, blockTimeMS=1000, **data)
    options = {"appName": "slow", "connectTimeoutMS": 50, "serverSelectionTimeoutMS": 300}
    with connected(server, **options) as client, pytest.raises(ServerSelectionTimeoutError):
        client.admin.command("ping")


@pytest.mark.parametrize("code", [91, 11600])
def test_a_shutdown_error_clears_the_pool(
    server: RunningServer, admin: MongoClient[Document], code: int
) -> None:
    cleared = Cleared()
    with connected(server, appName="pool", retryReads=False, event_listeners=[cleared]) as client:
        client.shop.orders.find_one()
        fail(admin, "failCommand", {"times": 1}, failCommands=["find"], errorCode=code, appName="pool")
        with pytest.raises(AutoReconnect):
            client.shop.orders.find_one()
    assert cleared.times == 1


@pytest.mark.parametrize("code", [24, 112, 246, 267])
@pytest.mark.parametrize("command", ["insert", "commitTransaction"])
def test_with_transaction_runs_again(
    client: MongoClient[Document], admin: MongoClient[Document], code: int, command: str
) -> None:
    name = f"again_{command}_{code}"
    client.shop.create_collection(name)
    runs = 0

    def body(session: ClientSession) -> None:
        nonlocal runs
        runs += 1
        client.shop[name].insert_one({"run": runs}, session=session)

    fail(admin, "failCommand", {"times": 2}, failCommands=[command], errorCode=code)
    with client.start_session() as session:
        session.with_transaction(body)
    assert runs == 3
    assert [found["run"] for found in client.shop[name].find()] == [3]


def test_a_write_is_repeated_after_its_reply_was_lost(
    server: RunningServer, admin: MongoClient[Document]
) -> None:
    with connected(server, retryWrites=True) as client:
        orders = client.shop.lost_replies
        for times in range(1, 4):
            fail(admin, "onPrimaryTransactionalWrite", {"times": 1})
            assert orders.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True).acknowledged
            assert orders.find_one() == {"_id": 1, "n": times}
    with connected(server, retryWrites=False) as client:
        fail(admin, "onPrimaryTransactionalWrite", {"times": 1})
        client.shop.lost_replies.update_one({"_id": 1}, {"$inc": {"n": 1}})  # not a retryable write


def test_a_write_fails_before_its_commit(client: MongoClient[Document], admin: MongoClient[Document]) -> None:
    orders = client.shop.failed_commits
    data = {"failBeforeCommitExceptionCode": 1}
    fail(admin, "onPrimaryTransactionalWrite", {"times": 1}, **data)
    orders.insert_one({"_id": 1})  # the driver sees a lost connection, and repeats the write
    fail(admin, "onPrimaryTransactionalWrite", {"times": 1}, closeConnection=False, **data)
    with pytest.raises(OperationFailure) as failure:
        orders.find_one_and_update({"_id": 1}, {"$set": {"a": 1}})
    assert failure.value.code == 1
    assert list(orders.find()) == [{"_id": 1}]
