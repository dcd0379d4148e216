"""Arguments that a command refuses after it has read all of them."""

from typing import Any

import pytest
from bson import Binary, Decimal128

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode, encode_value
from tests.mongod.server.raw_client import raw_client
from tests.mongod.server.running import Document, RunningServer

AGGREGATE: Document = {"aggregate": "c", "pipeline": [], "cursor": {}}
OTHER_UUID = Binary(bytes(16), 4)


def code_of(server: RunningServer, command: Document) -> int:
    """The code of a command's error or of its first statement's; 0 if there is none."""
    with raw_client(server) as raw:
        raw.call({"insert": "c", "documents": [{}], "$db": "refused"})
        reply = raw.call({**command, "$db": "refused"})
    if "writeErrors" in reply:
        return int(reply["writeErrors"][0]["code"])
    return int(reply.get("code", 0))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"needsMerge": False}, 9),
        ({"needsMerge": True, "fromMongos": False}, 0),
        ({"fromMongos": True}, 0),
        ({"readConcern": 5}, 14),
        ({"readConcern": 5, "nothing": 1}, 14),
        ({"readConcern": None}, 9),
    ],
)
def test_aggregate(server: RunningServer, fields: Document, code: int) -> None:
    assert code_of(server, {**AGGREGATE, **fields}) == code


@pytest.mark.parametrize(
    ("direction", "code"), [(Decimal128("1"), 0), (1.0, 0), (True, 2), (1.5, 2), ("1", 2)]
)
def test_a_hint_has_equal_numbers(server: RunningServer, direction: Any, code: int) -> None:
    hint = {"_id": direction}
    assert code_of(server, {"find": "c", "hint": hint}) == code
    statement = {"q": {}, "u": {"$set": {"a": 1}}, "hint": hint}
    assert code_of(server, {"update": "c", "updates": [statement]}) == code


@pytest.mark.parametrize("bound", ["min", "max"])
def test_empty_bounds_need_no_hint(server: RunningServer, bound: str) -> None:
    assert code_of(server, {"find": "c", bound: {}}) == 0
    assert code_of(server, {"find": "c", bound: {"_id": 1}}) == 51173


def test_writes_refuse_another_collection_by_statement(server: RunningServer) -> None:
    update = {"q": {"$bad": 1}, "u": {"$set": {"a": 1}}}
    assert code_of(server, {"update": "c", "updates": [update], "collectionUUID": OTHER_UUID}) == 361
    delete = {"q": {}, "limit": 1}
    assert code_of(server, {"delete": "c", "deletes": [delete], "collectionUUID": OTHER_UUID}) == 361


@pytest.mark.parametrize("let", [{"$a": 1}, {"v": {"$a": 1}}, {"v": "$a"}])
def test_a_fault_of_let_is_the_error_of_each_statement(server: RunningServer, let: Document) -> None:
    delete = {"q": {}, "limit": 1}
    with raw_client(server) as raw:
        command = {"delete": "c", "deletes": [delete, delete], "let": let, "ordered": False}
        reply = raw.call({**command, "$db": "refused"})
    assert [error["index"] for error in reply["writeErrors"]] == [0, 1]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"create": "n", "idIndex": {"key": {"_id": 0}, "name": "_id_"}}, 67),
        ({"create": "n", "idIndex": {"key": {"_id": True}, "name": "_id_"}}, 67),
        ({"create": "n", "idIndex": {"key": {"_id": -1}, "name": "_id_"}}, 2),
        ({"create": "n", "idIndex": {"key": {"_id": 1}, "name": ""}}, 67),
        ({"update": "c", "updates": [{"q": {}, "u": {"a": 1}, "hint": ""}]}, 2),
        ({"delete": "c", "deletes": [{"q": {}, "limit": 0, "hint": {}}]}, 0),
        ({"insert": "c", "documents": [{}], "isTimeseriesNamespace": True}, 5916400),
        ({"ping": 1, "startTransaction": True}, 72),
        ({"find": "c", "filter": {"$text": 1}}, 2),
        ({"find": "c", "filter": {"$text": {"$search": "x"}}}, 27),
    ],
)
def test_commands(server: RunningServer, command: Document, code: int) -> None:
    assert code_of(server, command) == code


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ({"killOp": 1, "op": 1.5}, 2),
        ({"killOp": 1, "op": Decimal128("2")}, 0),
        ({"killOp": 1, "op": 1e300}, 2),
        ({"logRotate": "audit"}, 4),
        ({"logRotate": "server"}, 0),
        ({"logRotate": None}, 14),
    ],
)
def test_commands_of_administrators(server: RunningServer, command: Document, code: int) -> None:
    with raw_client(server) as raw:
        assert raw.call({**command, "$db": "admin"}).get("code", 0) == code


def test_an_index_is_prepared_before_it_becomes_unique(server: RunningServer) -> None:
    index = {"key": {"u": 1}, "name": "u_1"}
    code_of(server, {"createIndexes": "c", "indexes": [index]})
    both = {"name": "u_1", "prepareUnique": True, "unique": True}
    assert code_of(server, {"collMod": "c", "index": both}) == 72


def test_a_stage_given_twice(server: RunningServer) -> None:
    kind, value = encode_value({})
    match = rawbson.element(kind, b"$match", value)
    array = rawbson.document(rawbson.element(rawbson.DOCUMENT, b"0", rawbson.document(match, match)))
    command = rawbson.document(
        rawbson.body(encode({"aggregate": "c", "cursor": {}, "$db": "refused"})),
        rawbson.element(rawbson.ARRAY, b"pipeline", array),
    )
    with raw_client(server) as raw:
        assert raw.call_raw(command)["code"] == 40323
