"""A replica set for the tests of a module, whose database `shop` is empty before each test."""

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from tailrace.testing.replica_set import ReplicaSet


@pytest.fixture(scope="module")
def server() -> Iterator[ReplicaSet]:
    with ReplicaSet() as found:
        yield found


@pytest.fixture
def client(server: ReplicaSet) -> Iterator[MongoClient[dict[str, Any]]]:
    found: MongoClient[dict[str, Any]] = MongoClient(server.uri)
    with found:
        found.drop_database("shop")
        yield found
