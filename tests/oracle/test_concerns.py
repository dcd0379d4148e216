"""Every command with every read and write concern, in and outside of transactions, beside the real server.

Only outcomes and codes are compared here: what the commands return is the matter of other tests.
"""

import uuid
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp

from tests.oracle.comparison import Difference
from tests.oracle.twins import Pair, Recalled, Twins

Document = dict[str, Any]
NOW = Recalled("now")
READ_CONCERNS: list[Document | None] = [
    None,
    {},
    {"level": "local"},
    {"level": "available"},
    {"level": "majority"},
    {"level": "linearizable"},
    {"level": "snapshot"},
    {"level": "snapshot", "atClusterTime": NOW},
    {"level": "majority", "afterClusterTime": NOW},
    {"afterClusterTime": NOW},
    {"level": "linearizable", "afterClusterTime": NOW},
    {"level": "available", "afterClusterTime": NOW},
    {"level": "snapshot", "afterClusterTime": NOW},
]
COMMANDS: list[Document] = [
    {"find": "a"},
    {"find": "nothing"},
    {"find": "capped"},
    {"find": "transactions", "$db": "config"},
    {"find": "oplog.rs", "limit": 1, "$db": "local"},
    {"aggregate": "a", "pipeline": [], "cursor": {}},
    {"aggregate": "a", "pipeline": [{"$merge": "merged"}], "cursor": {}},
    {"aggregate": "a", "pipeline": [{"$out": "merged"}], "cursor": {}},
    {"aggregate": "a", "pipeline": [{"$changeStream": {}}], "cursor": {}},
    {"aggregate": "a", "pipeline": [{"$indexStats": {}}], "cursor": {}},
    {"aggregate": "a", "pipeline": [{"$planCacheStats": {}}], "cursor": {}},
    {"aggregate": 1, "pipeline": [{"$listLocalSessions": {}}], "cursor": {}},
    {"aggregate": 1, "pipeline": [{"$documents": [{}]}], "cursor": {}},
    {
        "aggregate": "a",
        "pipeline": [{"$lookup": {"from": "capped", "as": "b", "pipeline": []}}],
        "cursor": {},
    },
    {"distinct": "a", "key": "x"},
    {"count": "a"},
    {"listCollections": 1},
    {"listIndexes": "a"},
    {"dbStats": 1},
    {"collStats": "a"},
    {"validate": "a"},
    {"explain": {"find": "a"}},
    {"insert": "w", "documents": [{}]},
    {"update": "w", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]},
    {"delete": "w", "deletes": [{"q": {"_id": 2}, "limit": 1}]},
    {"findAndModify": "w", "query": {"_id": 1}, "update": {"$set": {"x": 1}}},
    {"createIndexes": "w", "indexes": [{"key": {"x": 1}, "name": "x"}]},
    {"dropIndexes": "w", "index": "nothing"},
    {"collMod": "a", "validator": {}},
    {"ping": 1},
    {"hello": 1},
    {"buildInfo": 1},
    {"connectionStatus": 1},
    {"killCursors": "a", "cursors": [Int64(5)]},
    {"getMore": Int64(5), "collection": "a"},
    {"endSessions": []},
    {"listDatabases": 1, "$db": "admin"},
    {"serverStatus": 1, "$db": "admin"},
    {"getParameter": 1, "logLevel": 1, "$db": "admin"},
    {"setParameter": 1, "logLevel": 0, "$db": "admin"},
    {"renameCollection": "test.nothing", "to": "test.nothing2", "$db": "admin"},
    {"replSetGetStatus": 1, "$db": "admin"},
    {"getDefaultRWConcern": 1, "$db": "admin"},
    {"getClusterParameter": "changeStreamOptions", "$db": "admin"},
    {"appendOplogNote": 1, "data": {}, "$db": "admin"},
    {"commitTransaction": 1, "$db": "admin"},
    {"abortTransaction": 1, "$db": "admin"},
]
MALFORMED: list[Any] = [
    *([], 1, "local", None, {"level": 1}, {"level": None}, {"level": "some"}, {"level": "local", "x": 1}),
    *({"afterClusterTime": 1}, {"afterClusterTime": None}, {"atClusterTime": 1}, {"atClusterTime": NOW}),
    *({"level": "local", "atClusterTime": NOW}, {"level": "snapshot", "atClusterTime": None}),
    *({"level": "snapshot", "atClusterTime": Timestamp(0, 0)}, {"afterClusterTime": Timestamp(0, 0)}),
    {"level": "snapshot", "atClusterTime": NOW, "afterClusterTime": NOW},
    *({"provenance": "clientSupplied"}, {"provenance": "some"}, {"provenance": 1}),
    {"level": "local", "provenance": "customDefault"},
    *({"afterOpTime": 1}, {"afterOpTime": {}}, {"afterOpTime": {"ts": Timestamp(1, 1)}}),
    {"afterOpTime": {"ts": Timestamp(1, 1), "t": Int64(1)}},
    {"level": "snapshot", "afterOpTime": {"ts": Timestamp(1, 1), "t": Int64(1)}},
    {"afterOpTime": {"ts": Timestamp(1, 1), "t": Int64(1)}, "afterClusterTime": NOW},
    {"afterClusterTime": Timestamp(4_000_000_000, 1)},
    {"level": "snapshot", "atClusterTime": Timestamp(4_000_000_000, 1)},
    *({"level": "snapshot", "atClusterTime": Timestamp(1, 0)}, {"waitLastStableRecoveryTimestamp": True}),
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def collections(twins: Twins) -> None:
    create_collections(twins)


def create_collections(twins: Twins) -> None:
    twins.run({"insert": "a", "documents": [{"_id": n, "x": n} for n in range(5)]})
    twins.run({"insert": "w", "documents": [{"_id": 1}, {"_id": 2}]})
    twins.run({"create": "merged"})
    twins.run({"create": "capped", "capped": True, "size": 10_000})
    twins.run({"insert": "capped", "documents": [{"_id": 1}]})


def same_code(twins: Twins, command: Document) -> None:
    pair = twins.run({**command}, command.get("$db", "test"))
    found = _code_difference(pair)
    assert found is None, f"{command}\n{found}\nreal {pair.real}\nours {pair.ours}"


def _code_difference(pair: Pair) -> Difference | None:
    labels = [reply.get("errorLabels") for reply in (pair.real, pair.ours)]
    if labels[0] != labels[1]:
        return Difference("errorLabels", "value", *labels)
    return next((one for one in pair.differences if one.kind in ("code", "outcome")), None)


def in_transaction(lsid: Document, *, start: bool) -> Document:
    fields = {"lsid": lsid, "txnNumber": Int64(1), "autocommit": False}
    return {**fields, "startTransaction": True} if start else fields


def new_lsid() -> Document:
    return {"id": Binary(uuid.uuid4().bytes, 4)}


@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: "-".join(map(str, next(iter(command.items()))))
)
def test_levels(twins: Twins, command: Document) -> None:
    twins.operation_time("now")
    for concern in READ_CONCERNS:
        given = {} if concern is None else {"readConcern": concern}
        same_code(twins, {**command, **given})
        lsid = new_lsid()
        same_code(twins, {**command, **given, **in_transaction(lsid, start=True)})
        twins.run({"abortTransaction": 1, **in_transaction(lsid, start=False)}, "admin")
        if concern is None or len(concern) < 2:
            twins.run({"find": "a", **in_transaction(lsid := new_lsid(), start=True)})
            same_code(twins, {**command, **given, **in_transaction(lsid, start=False)})
            twins.run({"abortTransaction": 1, **in_transaction(lsid, start=False)}, "admin")
    for write_concern in ({}, {"w": 1}, {"w": "majority"}, {"w": 1, "j": True}):
        same_code(twins, {**command, "writeConcern": write_concern})


def test_malformed_read_concerns(twins: Twins) -> None:
    twins.operation_time("now")
    for concern in MALFORMED:
        same_code(twins, {"find": "a", "readConcern": concern})
        same_code(twins, {"find": "a", "readConcern": concern, **in_transaction(new_lsid(), start=True)})
        same_code(twins, {"count": "a", "readConcern": concern, **in_transaction(new_lsid(), start=True)})


def test_defaults(own_twins: Twins) -> None:
    twins = own_twins  # a default write concern cannot be removed again
    create_collections(twins)

    def check(**fields: Any) -> None:
        twins.same({"setDefaultRWConcern": 1, **fields}, "admin")
        twins.same({"getDefaultRWConcern": 1}, "admin")
        twins.same({"getDefaultRWConcern": 1, "inMemory": True}, "admin")
        for command in ({"find": "a"}, {"insert": "w", "documents": [{}]}):
            same_code(twins, {**command, **in_transaction(new_lsid(), start=True)})
        same_code(twins, {"aggregate": "a", "pipeline": [{"$changeStream": {}}], "cursor": {}})

    for read in (
        {"level": "majority"},
        {"level": "snapshot"},
        {"level": "linearizable"},
        {"level": "available"},
        {},
    ):
        check(defaultReadConcern=read)
    check(defaultReadConcern={"level": "local", "provenance": "clientSupplied"})
    check(defaultReadConcern={"level": "local", "afterClusterTime": Timestamp(1, 1)})
    for write in (
        {"j": True},
        {"w": 1, "provenance": "clientSupplied"},
        {"w": 0},
        {"w": 1},
        {},
        {"w": "majority"},
    ):
        check(defaultWriteConcern=write)
    same_code(
        twins, {"setDefaultRWConcern": 1, "defaultReadConcern": {}, "writeConcern": {"w": 5}, "$db": "admin"}
    )
    check(defaultReadConcern={})
