"""A data directory that has reached its maximum size refuses writes only."""

import pytest
from pymongo.collection import Collection
from pymongo.errors import OperationFailure

from tests.mongod.server.running import Document, connected, running


def fill(orders: Collection[Document]) -> None:
    for number in range(1, 200):
        orders.insert_one({"_id": number, "text": "x" * 100_000})


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
