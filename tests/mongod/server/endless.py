"""Commands that compute for longer than any test, and what else happens meanwhile."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.mongod.server.running import Document, wait_for


def counting(times: int, body: Any) -> Document:
    """An expression that adds ``body`` to itself that many times."""
    return {
        "$reduce": {"input": {"$range": [0, times]}, "initialValue": 0, "in": {"$add": ["$$value", body]}}
    }


ENDLESS = counting(10_000, counting(10_000, counting(10_000, "$_id")))
"""A sum of 10**12 numbers."""
MANY = {"$range": [0, 100_000]}
ONE = {"aggregate": "c", "cursor": {}}

COMMANDS: dict[str, Document] = {
    "find": {"find": "c", "filter": {"$expr": {"$eq": [ENDLESS, 1]}}},
    "project": {**ONE, "pipeline": [{"$project": {"r": ENDLESS}}]},
    "constant": {
        **ONE,
        "pipeline": [{"$project": {"r": counting(10_000, {"$size": {"$setUnion": [MANY]}})}}],
    },
    "folded": {
        **ONE,
        "pipeline": [{"$project": {"r": {"$concatArrays": [{"$setUnion": [MANY]}] * 1000}}}],
    },
    "map": {**ONE, "pipeline": [{"$set": {"r": {"$map": {"input": {"$range": [0, 1000]}, "in": ENDLESS}}}}]},
    "filter": {
        **ONE,
        "pipeline": [{"$match": {"$expr": {"$filter": {"input": [1, 2], "cond": {"$lt": [ENDLESS, 0]}}}}}],
    },
    "group": {**ONE, "pipeline": [{"$group": {"_id": ENDLESS}}]},
    "lookup": {
        **ONE,
        "pipeline": [{"$lookup": {"from": "c", "as": "r", "pipeline": [{"$set": {"r": ENDLESS}}]}}],
    },
    "unwind": {
        **ONE,
        "pipeline": [
            *({"$set": {name: {"$range": [0, 1000]}}} for name in "abcd"),
            *({"$unwind": f"${name}"} for name in "abcd"),
            {"$group": {"_id": None, "n": {"$sum": 1}}},
        ],
    },
    "windows": {
        **ONE,
        "pipeline": [
            {"$set": {"a": {"$range": [0, 20_000]}}},
            {"$unwind": "$a"},
            {
                "$setWindowFields": {
                    "sortBy": {"a": -1},
                    "output": {"r": {"$push": "$a", "window": {"documents": [-9999, 9999]}}},
                }
            },
        ],
    },
    "sets": {
        **ONE,
        "pipeline": [{"$project": {"r": counting(10_000, {"$size": {"$setUnion": [MANY, ["$_id"]]}})}}],
    },
    "distinct": {"distinct": "c", "key": "a", "query": {"$expr": {"$eq": [ENDLESS, 1]}}},
    "count": {"count": "c", "query": {"$expr": {"$eq": [ENDLESS, 1]}}},
    "explain": {"explain": {"count": "c", "query": {"$expr": {"$eq": [ENDLESS, 1]}}}},
    "update": {"update": "c", "updates": [{"q": {"_id": 1}, "u": [{"$set": {"r": ENDLESS}}]}]},
    "update by a filter": {
        "update": "c",
        "updates": [{"q": {"$expr": {"$eq": [ENDLESS, 1]}}, "u": {"$set": {"r": 1}}, "multi": True}],
    },
    "delete": {"delete": "c", "deletes": [{"q": {"$expr": {"$eq": [ENDLESS, 1]}}, "limit": 1}]},
    "findAndModify": {"findAndModify": "c", "query": {"_id": 1}, "update": [{"$set": {"r": ENDLESS}}]},
    "validator": {"insert": "strict", "documents": [{"_id": 1}]},
}  # fmt: skip


def prepare(database: Any) -> None:
    """Create the collections that the commands use."""
    database.c.insert_many([{"_id": number} for number in range(1, 4)])
    database.create_collection("strict", validator={"$expr": {"$gt": [ENDLESS, 0]}})


class Running:
    """A command that runs in a thread."""

    def __init__(self, uri: str, database: str, command: Document) -> None:
        self.client = MongoClient[Document](
            uri, retryReads=False, retryWrites=False, serverSelectionTimeoutMS=1000
        )
        self.code: int | None = None
        """The code of its error, when it has ended."""
        self._database, self._command = database, command
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.client[self._database].command(self._command)
        except PyMongoError as error:
            self.code = getattr(error, "code", None)

    def join(self) -> int | None:
        self._thread.join(timeout=20)
        assert not self._thread.is_alive(), "it did not end"
        return self.code


def operations(client: MongoClient[Document], database: str) -> list[Document]:
    """The commands that run on a database now, as currentOp shows them."""
    found = client.admin.aggregate([{"$currentOp": {"localOps": True}}, {"$match": {"active": True}}])
    return [entry for entry in found if entry.get("command", {}).get("$db") == database]


@contextmanager
def computing(client: MongoClient[Document], uri: str, database: str, command: Document) -> Iterator[Running]:
    """Run a command of another client until the end of the block, which has to end it."""
    running = Running(uri, database, command)
    try:
        wait_for(lambda: bool(operations(client, database)))
        yield running
    finally:
        for entry in operations(client, database):
            client.admin.command("killOp", op=entry["opid"])
        running.client.close()
