"""Fail points beside the real server: what they do, and the replies that drivers decide by."""

from collections.abc import Iterator
from typing import Any

import pytest
from bson import Binary, Int64, ObjectId

from tests.oracle.comparison import Document
from tests.oracle.twins import Pair, Side, Twins

CODES = (
    1, 2, 6, 7, 11, 13, 20, 24, 26, 43, 50, 59, 63, 64, 65, 72, 79, 89, 91, 100, 112, 117, 121, 133, 134, 136,
    150, 175, 189, 202, 211, 225, 234, 237, 239, 244, 246, 249, 250, 251, 256, 262, 263, 267, 272, 280, 286,
    317, 321, 325, 358, 364, 384, 9001, 10107, 11000, 11600, 11601, 11602, 13388, 13435, 13436, 50915,
)  # fmt: skip
SESSION = {"id": Binary(bytes(range(16)), 4)}
STATEMENT: Document = {"lsid": SESSION, "txnNumber": Int64(5), "autocommit": False}
COMMANDS: tuple[tuple[str, Document], ...] = (
    ("test", {"insert": "c", "documents": [{"a": 1}], **STATEMENT, "startTransaction": True}),
    ("admin", {"commitTransaction": 1, **STATEMENT}),
    ("admin", {"abortTransaction": 1, **STATEMENT}),
    ("test", {"insert": "c", "documents": [{"a": 1}], "lsid": SESSION, "txnNumber": Int64(4)}),
    ("test", {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}),
    ("test", {"find": "c"}),
)
FAILED = ["insert", "commitTransaction", "abortTransaction", "aggregate", "find"]
METADATA = {
    "driver": {"name": "test", "version": "1"},
    "os": {"type": "Linux"},
    "application": {"name": "fails"},
}


def configure(twins: Twins, name: str, mode: Any, data: Document | None = None) -> Pair:
    """Set a fail point; how often it was entered before is different on both servers."""
    command = {"configureFailPoint": name, "mode": mode, **({} if data is None else {"data": data})}
    pair = twins.run(command, "admin")
    for reply in (pair.real, pair.ours):
        reply.pop("count", None)
    assert not pair.differences, pair
    return pair


@pytest.fixture(autouse=True)
def off_again(twins: Twins) -> Iterator[None]:
    yield
    for name in ("failCommand", "onPrimaryTransactionalWrite", "maxTimeAlwaysTimeOut"):
        configure(twins, name, "off")


@pytest.mark.parametrize("code", CODES)
def test_labels_and_topology_versions(twins: Twins, code: int) -> None:
    configure(twins, "failCommand", "alwaysOn", {"failCommands": FAILED, "errorCode": code})
    for database, command in COMMANDS:
        pair = twins.run(command, database)
        for reply in (pair.real, pair.ours):
            reply.pop("codeName", None)
        assert not pair.differences, (command, pair)


@pytest.mark.parametrize("code", [91, 10107, 11600, 11602, 13436, 64, 189])
@pytest.mark.parametrize("labels", [None, [], ["A"]])
def test_write_concern_errors(twins: Twins, code: int, labels: list[str] | None) -> None:
    data: Document = {"failCommands": ["insert", "ping"], "writeConcernError": {"code": code, "errmsg": "x"}}
    if labels is not None:
        data["errorLabels"] = labels
    configure(twins, "failCommand", "alwaysOn", data)
    number = Int64(code * 10 + len(labels or ()))
    session = {"id": Binary(ObjectId().binary + bytes(4), 4)}
    twins.same({"insert": "c", "documents": [{"_id": ObjectId()}], "lsid": session, "txnNumber": number})
    twins.same({"insert": "c", "documents": [{"_id": ObjectId()}]})
    twins.same({"ping": 1})


@pytest.mark.parametrize(
    ("code", "info"),
    [
        (11000, {"keyPattern": {"a": 1}, "keyValue": {"a": 1}}),
        (121, {"errInfo": {"a": 1}}),
        (2, {"a": 1}),
    ],
)
def test_extra_info(twins: Twins, code: int, info: Document) -> None:
    data = {"failCommands": ["ping"], "errorCode": code, "errorExtraInfo": info}
    configure(twins, "failCommand", {"times": 1}, data)
    twins.same({"ping": 1})


@pytest.mark.parametrize("code", [63, 65, 249, 13388])
def test_get_mores_of_streams(twins: Twins, code: int) -> None:
    opened = twins.run({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}})
    cursor = twins.remember("cursor", opened, ["cursor", "id"])
    configure(twins, "failGetMoreAfterCursorCheckout", {"times": 1}, {"errorCode": code})
    twins.same({"getMore": cursor, "collection": "c"})


@pytest.mark.parametrize("named", ["hello", "isMaster", "ismaster"])
def test_hello_and_is_master_are_two_commands(twins: Twins, named: str) -> None:
    configure(twins, "failCommand", "alwaysOn", {"failCommands": [named], "errorCode": 2})
    for name in ("hello", "isMaster", "ismaster"):
        pair = twins.run({name: 1})
        assert pair.real.get("code") == pair.ours.get("code")


@pytest.mark.parametrize(
    "action",
    [
        {"errorCode": 2},
        {"errorCode": 91},
        {"closeConnection": True},
        {"blockConnection": True, "blockTimeMS": 20},
    ],
)
@pytest.mark.parametrize("name", ["fails", "other"])
def test_the_first_hello_brings_the_name_of_the_application(
    twins: Twins, action: Document, name: str
) -> None:
    configure(twins, "failCommand", {"times": 1}, {"failCommands": ["hello"], "appName": name, **action})
    found = []
    for side in (twins.real, twins.ours):
        other = Side(side.address)
        replies = [other.call({"hello": 1, "client": METADATA, "$db": "admin"}) for _ in range(2)]
        found.append([(reply["ok"], reply.get("code")) for reply in replies])
        other.close()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "command",
    [
        {"configureFailPoint": "nothing", "mode": "off"},
        {"configureFailPoint": 1, "mode": "off"},
        {"configureFailPoint": "failCommand"},
        {"configureFailPoint": "failCommand", "mode": 1},
        {"configureFailPoint": "failCommand", "mode": "sometimes"},
        {"configureFailPoint": "failCommand", "mode": {}},
        {"configureFailPoint": "failCommand", "mode": {"often": 1}},
        {"configureFailPoint": "failCommand", "mode": {"times": -1}},
        {"configureFailPoint": "failCommand", "mode": {"times": 1.5}},
        {"configureFailPoint": "failCommand", "mode": {"times": "1"}},
        {"configureFailPoint": "failCommand", "mode": {"activationProbability": 2}},
        {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": 1},
        {"waitForFailPoint": "failCommand", "maxTimeMS": 1000},
        {"waitForFailPoint": "failCommand", "timesEntered": 0, "maxTimeMS": 1000},
        {"waitForFailPoint": "failCommand", "timesEntered": 1_000_000, "maxTimeMS": 10},
        {"waitForFailPoint": "nothing", "timesEntered": 1, "maxTimeMS": 1000},
    ],
)
def test_configurations(twins: Twins, command: Document) -> None:
    twins.same(command, "admin")


def test_a_parameter_shows_a_fail_point(twins: Twins) -> None:
    configure(twins, "failCommand", {"times": 3}, {"failCommands": ["whatsmyuri"], "errorCode": 2})
    pair = twins.run({"getParameter": 1, "failpoint.failCommand": 1}, "admin")
    for reply in (pair.real, pair.ours):
        assert isinstance(reply["failpoint.failCommand"].pop("timesEntered"), Int64)
    assert not pair.differences, pair


# -- onPrimaryTransactionalWrite --------------------------------------------------------------------------


def write(kind: str) -> Document:
    """A retryable write of a new session."""
    ids = [ObjectId() for _ in range(3)]
    commands: dict[str, Document] = {
        "one": {"insert": "w", "documents": [{"_id": ids[0]}]},
        "many": {"insert": "w", "documents": [{"_id": each} for each in ids]},
        "unordered": {"insert": "w", "documents": [{"_id": each} for each in ids], "ordered": False},
        "updates": {
            "update": "w",
            "updates": [{"q": {"_id": number}, "u": {"$inc": {"a": 1}}} for number in (1, 2)],
        },
        "nothing": {"update": "w", "updates": [{"q": {"_id": 77}, "u": {"$inc": {"a": 1}}}]},
        "find_and_modify": {"findAndModify": "w", "query": {"_id": 1}, "update": {"$inc": {"a": 1}}},
        "delete": {"delete": "w", "deletes": [{"q": {"_id": 3}, "limit": 1}]},
    }
    return {**commands[kind], "lsid": {"id": Binary(ObjectId().binary + bytes(4), 4)}, "txnNumber": Int64(1)}


def same_values(twins: Twins, command: Document) -> None:
    """Require equal replies; the order of an update's fields is the subject of another test."""
    found = [each for each in twins.run(command).differences if each.kind != "order"]
    assert not found, found


@pytest.mark.parametrize(
    "kind", ["one", "many", "unordered", "updates", "nothing", "find_and_modify", "delete"]
)
@pytest.mark.parametrize(
    ("code", "mode"),
    [
        (1, "alwaysOn"),
        (1, {"times": 1}),
        (1, {"times": 2}),
        (1, {"skip": 1}),
        (91, {"times": 2}),
        (11000, "alwaysOn"),
        (112, {"times": 1}),
    ],
)
def test_a_write_fails_before_its_commit(twins: Twins, kind: str, mode: Any, code: int) -> None:
    for number in (1, 2, 3):
        upsert = {"q": {"_id": number}, "u": {"_id": number, "a": 0}, "upsert": True}
        twins.run({"update": "w", "updates": [upsert]})
    command = write(kind)
    data = {"failBeforeCommitExceptionCode": code, "closeConnection": False}
    configure(twins, "onPrimaryTransactionalWrite", mode, data)
    same_values(twins, command)
    configure(twins, "onPrimaryTransactionalWrite", "off")
    same_values(twins, command)
    twins.same({"find": "w", "filter": {"_id": {"$type": "int"}}, "sort": {"_id": 1}})
    twins.same({"count": "w"})


@pytest.mark.parametrize("kind", ["one", "many", "updates", "nothing", "find_and_modify"])
@pytest.mark.parametrize("data", [{}, {"closeConnection": True}, {"closeConnection": False}])
def test_a_write_whose_reply_is_lost(twins: Twins, kind: str, data: Document) -> None:
    command = write(kind)
    configure(twins, "onPrimaryTransactionalWrite", {"times": 1}, data)
    same_values(twins, command)
    configure(twins, "onPrimaryTransactionalWrite", "off")
    same_values(twins, command)


def test_a_commit_fails(twins: Twins) -> None:
    statement = {"lsid": {"id": Binary(ObjectId().binary + bytes(4), 4)}, "txnNumber": Int64(1)}
    statement["autocommit"] = False
    twins.same({"insert": "c", "documents": [{"_id": "commit"}], **statement, "startTransaction": True})
    data = {"failBeforeCommitExceptionCode": 91, "closeConnection": False}
    configure(twins, "onPrimaryTransactionalWrite", "alwaysOn", data)
    twins.same({"commitTransaction": 1, **statement}, "admin")


# -- limits of time ---------------------------------------------------------------------------------------


def test_a_time_limit_reaches_get_more(twins: Twins) -> None:
    twins.same({"insert": "timed", "documents": [{"_id": number} for number in range(10)]})
    for limit in ({}, {"maxTimeMS": 60_000}):
        opened = twins.run({"find": "timed", "batchSize": 2, **limit})
        cursor = twins.remember("cursor", opened, ["cursor", "id"])
        configure(twins, "maxTimeAlwaysTimeOut", "alwaysOn")
        twins.same({"getMore": cursor, "collection": "timed", "batchSize": 2})
        configure(twins, "maxTimeAlwaysTimeOut", "off")
        twins.same({"getMore": cursor, "collection": "timed", "batchSize": 2})
