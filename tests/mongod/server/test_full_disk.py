"""A data directory that is full refuses writes only, until there is room again."""

import resource
import sys

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tests.cli.serving import serving
from tests.mongod.server.running import Document, connected, running


def fill(orders: Collection[Document], size: int = 100_000) -> None:
    """Insert documents until the server refuses one; the documents have consecutive numbers from 1."""
    for number in range(1, 5000):
        orders.insert_one({"_id": number, "text": "x" * size})


def test_writes_fail_and_everything_else_works() -> None:
    with running(max_bytes=8 << 20) as server, connected(server) as client:
        orders = client.shop.orders
        orders.insert_one({"_id": 0})
        with orders.watch() as stream:
            with pytest.raises(OperationFailure) as caught:
                fill(orders)
            assert caught.value.code == 14031
            stored = orders.count_documents({})
            events = 0
            while stream.try_next() is not None:
                events += 1
        assert stored > 5
        assert events == stored - 1
        assert orders.find_one({"_id": stored - 1}) is not None
        assert client.admin.command("ping")["ok"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process is set")
@pytest.mark.parametrize("size", [1_000, 100_000, 5_000_000])
def test_the_system_refuses_to_write(size: int) -> None:
    """Some writes fail at their beginning, others in the middle, which LMDB reports as an I/O error."""
    with serving() as (process, uri), MongoClient[Document](uri, serverSelectionTimeoutMS=10_000) as client:
        orders = client.shop.orders
        orders.insert_one({"_id": 0})
        hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (3 << 20, hard))
        with pytest.raises(OperationFailure, match="the data directory cannot be written") as caught:
            fill(orders, size)
        assert caught.value.code == 14031
        stored = orders.count_documents({})
        assert orders.find_one({"_id": stored - 1}) is not None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        orders.insert_one({"_id": stored, "text": "x" * size})
        assert orders.count_documents({}) == stored + 1
        assert client.shop.validate_collection("orders")["valid"]
