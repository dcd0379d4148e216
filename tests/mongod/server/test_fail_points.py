"""configureFailPoint, and failCommand in all its forms."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect, ExecutionTimeout, OperationFailure

from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running

METADATA = {"driver": {"name": "test", "version": "1"}, "os": {"type": "Linux"}}


def fail(raw: RawClient, mode: Any = "alwaysOn", **data: Any) -> int:
    reply = raw.call({"configureFailPoint": "failCommand", "mode": mode, "data": data})
    assert reply["ok"] == 1.0, reply
    count: int = reply["count"]
    return count


def test_an_error_a_number_of_times(raw: RawClient) -> None:
    fail(raw, {"times": 2}, failCommands=["ping"], errorCode=11601)
    assert [raw.call({"ping": 1}).get("code") for _ in range(4)] == [11601, 11601, None, None]


def test_the_error_looks_like_one(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=112)
    reply = raw.call({"ping": 1})
    assert reply["codeName"] == "WriteConflict"
    assert "failCommand" in reply["errmsg"]
    assert "errorLabels" not in reply
    fail(raw, failCommands=["ping"], errorCode=112, errorMsg="on purpose", errorExtraInfo={"why": "test"})
    reply = raw.call({"ping": 1})
    assert reply["errmsg"] == "on purpose"
    assert "why" not in reply


def test_some_codes_need_more_than_a_message(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=11000)
    assert raw.call({"ping": 1})["code"] == 40671
    key = {"keyPattern": {"a": 1}, "keyValue": {"a": 2}}
    fail(raw, failCommands=["ping"], errorCode=11000, errorExtraInfo=key)
    reply = raw.call({"ping": 1})
    assert reply["code"] == 11000
    assert reply["keyValue"] == {"a": 2}


def test_only_not_primary_errors_have_a_topology_version(raw: RawClient) -> None:
    for code, has_version in (
        (10107, True),
        (189, True),
        (11602, True),
        (13435, True),
        (91, False),
        (11600, False),
    ):
        fail(raw, failCommands=["ping"], errorCode=code)
        reply = raw.call({"ping": 1})
        assert reply["code"] == code
        assert ("topologyVersion" in reply) == has_version
        assert next(iter(reply)) == ("topologyVersion" if has_version else "ok")


def test_labels_are_exactly_those_configured(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=286)
    assert raw.call({"ping": 1})["errorLabels"] == ["NonResumableChangeStreamError"]
    fail(raw, failCommands=["ping"], errorCode=286, errorLabels=[])
    assert "errorLabels" not in raw.call({"ping": 1})
    fail(raw, failCommands=["ping"], errorCode=5, errorLabels=["A", "B"])
    assert raw.call({"ping": 1})["errorLabels"] == ["A", "B"]


def test_skipping(raw: RawClient) -> None:
    fail(raw, {"skip": 2}, failCommands=["ping"], errorCode=2)
    assert [raw.call({"ping": 1}).get("code") for _ in range(4)] == [None, None, 2, 2]


def test_only_matching_commands_count(raw: RawClient) -> None:
    fail(raw, {"times": 1}, failCommands=["whatsmyuri", "getLog"], errorCode=2)
    assert raw.call({"ping": 1})["ok"] == 1.0
    assert raw.call({"whatsmyuri": 1})["code"] == 2
    assert raw.call({"getLog": "*"})["ok"] == 1.0


def test_probabilities(raw: RawClient) -> None:
    fail(raw, {"activationProbability": 0}, failCommands=["ping"], errorCode=2)
    assert raw.call({"ping": 1})["ok"] == 1.0
    fail(raw, {"activationProbability": 1.0}, failCommands=["ping"], errorCode=2)
    assert raw.call({"ping": 1})["code"] == 2


def test_off(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=2)
    assert raw.call({"ping": 1})["code"] == 2
    assert raw.call({"configureFailPoint": "failCommand", "mode": "off"})["ok"] == 1.0
    assert raw.call({"ping": 1})["ok"] == 1.0


def test_aliases_are_the_same_command(raw: RawClient) -> None:
    fail(raw, failCommands=["isMaster"], errorCode=91)
    assert raw.call({"ismaster": 1})["code"] == 91
    assert raw.call({"hello": 1})["ok"] == 1.0
    fail(raw, failCommands=["hello"], errorCode=91)
    assert raw.call({"isMaster": 1})["ok"] == 1.0
    assert raw.call({"hello": 1})["code"] == 91


def test_all_commands_and_all_but_some(raw: RawClient) -> None:
    fail(raw, failAllCommands=True, errorCode=2)
    assert raw.call({"ping": 1})["code"] == 2
    fail(raw, failCommandsExcept=["ping"], errorCode=2)
    assert raw.call({"ping": 1})["ok"] == 1.0
    assert raw.call({"whatsmyuri": 1})["code"] == 2


def test_without_an_action_nothing_happens(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"])
    assert raw.call({"ping": 1})["ok"] == 1.0
    fail(raw, failCommands=["ping"], errorCode=0, closeConnection=False)
    assert raw.call({"ping": 1})["ok"] == 1.0


def test_closing_the_connection(server: RunningServer, raw: RawClient) -> None:
    fail(raw, {"times": 1}, failCommands=["ping"], closeConnection=True)
    with raw_client(server) as other:
        other.send({"ping": 1})
        assert other.is_closed()
    assert raw.call({"ping": 1})["ok"] == 1.0


def test_a_driver_sees_a_closed_connection(raw: RawClient, client: MongoClient[Document]) -> None:
    fail(raw, {"times": 1}, failCommands=["whatsmyuri"], closeConnection=True)
    with pytest.raises(AutoReconnect):
        client.admin.command("whatsmyuri")
    assert client.admin.command("whatsmyuri")["ok"] == 1.0


def test_blocking(raw: RawClient) -> None:
    fail(raw, {"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=60)
    started = time.monotonic()
    assert raw.call({"ping": 1})["ok"] == 1.0
    assert time.monotonic() - started >= 0.06


def test_blocking_and_then_failing(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], blockConnection=True, blockTimeMS=20, errorCode=2)
    started = time.monotonic()
    assert raw.call({"ping": 1})["code"] == 2
    assert time.monotonic() - started >= 0.02


def test_a_block_without_a_time_lasts_until_the_next_configuration(
    server: RunningServer, raw: RawClient
) -> None:
    before = fail(raw, {"times": 1}, failCommands=["ping"], blockConnection=True)
    with raw_client(server) as other:
        other.send({"ping": 1})
        raw.call({"waitForFailPoint": "failCommand", "timesEntered": before + 1, "maxTimeMS": 10_000})
        assert raw.call({"configureFailPoint": "failCommand", "mode": "off"})["ok"] == 1.0
        assert b"ok" in other.receive().document


def test_max_time_ends_a_block(raw: RawClient, client: MongoClient[Document]) -> None:
    fail(raw, failCommands=["whatsmyuri"], blockConnection=True, blockTimeMS=60_000)
    with pytest.raises(ExecutionTimeout):
        client.admin.command({"whatsmyuri": 1, "maxTimeMS": 20})


def test_blocking_one_connection_does_not_block_others(server: RunningServer, raw: RawClient) -> None:
    fail(raw, {"times": 1}, failCommands=["ping"], blockConnection=True, blockTimeMS=60_000)
    with raw_client(server) as blocked:
        blocked.send({"ping": 1})
        raw.call({"waitForFailPoint": "failCommand", "timesEntered": 1, "maxTimeMS": 10_000})
        assert raw.call({"whatsmyuri": 1})["ok"] == 1.0


def test_only_an_application(server: RunningServer, raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=2, appName="shop")
    assert raw.call({"ping": 1})["ok"] == 1.0
    with raw_client(server) as other:
        other.call({"hello": 1, "client": {**METADATA, "application": {"name": "shop"}}})
        assert other.call({"ping": 1})["code"] == 2


def test_only_a_namespace(raw: RawClient) -> None:
    fail(raw, failCommands=["drop"], errorCode=2, namespace="shop.orders")
    assert raw.call({"drop": "orders", "$db": "shop"})["code"] == 2
    assert raw.call({"drop": "orders", "$db": "shelf"}).get("code") != 2


def test_a_write_concern_error_after_a_success(raw: RawClient) -> None:
    error = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "on purpose"}
    fail(raw, failCommands=["appendOplogNote"], writeConcernError=error)
    reply = raw.call({"appendOplogNote": 1, "data": {}})
    assert reply["ok"] == 1.0
    assert reply["writeConcernError"] == error
    fail(raw, failCommands=["appendOplogNote"], writeConcernError=error, errorLabels=["RetryableWriteError"])
    assert raw.call({"appendOplogNote": 1, "data": {}})["errorLabels"] == ["RetryableWriteError"]


def test_configuring_is_never_failed(raw: RawClient) -> None:
    fail(raw, failAllCommands=True, errorCode=2)
    fail(raw, failCommands=["configureFailPoint"], errorCode=2)
    assert raw.call({"configureFailPoint": "failCommand", "mode": "off"})["ok"] == 1.0


def test_the_count_is_how_often_it_was_entered(raw: RawClient) -> None:
    before = fail(raw, failCommands=["ping"], errorCode=2)
    for _ in range(3):
        raw.call({"ping": 1})
    assert fail(raw, "off") == before + 3


def test_get_parameter_shows_a_fail_point(raw: RawClient) -> None:
    fail(raw, failCommands=["ping"], errorCode=2)
    shown = raw.call({"getParameter": 1, "failpoint.failCommand": 1})["failpoint.failCommand"]
    assert shown.pop("timesEntered") >= 0
    assert shown == {"mode": 1, "data": {"failCommands": ["ping"], "errorCode": 2}}


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"configureFailPoint": "nowhere", "mode": "alwaysOn"}, 266),
        ({"configureFailPoint": 1, "mode": "alwaysOn"}, 266),
        ({"configureFailPoint": "failCommand"}, 20),
        ({"configureFailPoint": "failCommand", "mode": "sometimes"}, 2),
        ({"configureFailPoint": "failCommand", "mode": 1}, 14),
        ({"configureFailPoint": "failCommand", "mode": {}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"often": 1}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"times": "3"}}, 14),
        ({"configureFailPoint": "failCommand", "mode": {"times": -1}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"skip": 2**31}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"activationProbability": 1.5}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"activationProbability": "x"}}, 14),
        ({"configureFailPoint": "failCommand", "mode": "off", "data": 1}, 14),
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"failCommands": "ping"}}, 14),
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"errorCode": "x"}}, 14),
        ({"configureFailPoint": "failCommand", "mode": {"times": 1.5}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"times": float("inf")}}, 2),
        ({"configureFailPoint": "failCommand", "mode": {"skip": float("nan")}}, 2),
        ({"configureFailPoint": "failCommand", "mode": "alwaysOn", "$db": "shop"}, 13),
    ],
)
def test_wrong_configurations(raw: RawClient, fields: Document, code: int) -> None:
    assert raw.call(fields)["code"] == code
    assert raw.call({"ping": 1})["ok"] == 1.0


def test_without_test_commands_there_is_no_such_command() -> None:
    with running(parameters={"enableTestCommands": "0"}) as server, connected(server) as client:
        with pytest.raises(OperationFailure) as failure:
            client.admin.command({"configureFailPoint": "failCommand", "mode": "off"})
        assert failure.value.code == 59
        assert "configureFailPoint" not in client.admin.command("listCommands")["commands"]


def test_times_out_always_and_never(raw: RawClient) -> None:
    raw.call({"configureFailPoint": "maxTimeAlwaysTimeOut", "mode": "alwaysOn"})
    assert raw.call({"ping": 1, "maxTimeMS": 60_000})["code"] == 50
    assert raw.call({"ping": 1})["ok"] == 1.0
    raw.call({"configureFailPoint": "maxTimeAlwaysTimeOut", "mode": "off"})
    raw.call({"configureFailPoint": "maxTimeNeverTimeOut", "mode": "alwaysOn"})
    fail(raw, failCommands=["ping"], blockConnection=True, blockTimeMS=30)
    assert raw.call({"ping": 1, "maxTimeMS": 1})["ok"] == 1.0


STREAM: Document = {
    "aggregate": "orders",
    "pipeline": [{"$changeStream": {}}],
    "cursor": {"batchSize": 0},
    "$db": "fail_test",
}


def get_more(raw: RawClient) -> Document:
    cursor = raw.call(STREAM)["cursor"]["id"]
    return {"getMore": cursor, "collection": "orders", "$db": "fail_test", "maxTimeMS": 60_000}


@pytest.mark.parametrize(
    ("name", "field"), [("failGetMoreAfterCursorCheckout", "errorCode"), ("throwErrorBeforeGetNext", "code")]
)
def test_a_get_more_that_fails_with_its_cursor(raw: RawClient, name: str, field: str) -> None:
    more = get_more(raw)
    raw.call({"configureFailPoint": name, "mode": {"times": 1}, "data": {field: 11602}})
    reply = raw.call(more)
    assert reply["code"] == 11602
    assert reply["errorLabels"] == ["ResumableChangeStreamError"]
    assert raw.call(more)["code"] == 43  # an error during the getMore ends the cursor


def test_a_get_more_that_fails_early_leaves_its_cursor_open(raw: RawClient) -> None:
    more = {**get_more(raw), "maxTimeMS": 1}
    fail(raw, {"times": 1}, failCommands=["getMore"], errorCode=91)
    reply = raw.call(more)
    assert reply["code"] == 91
    assert "errorLabels" not in reply  # it fails before its cursor is looked up
    assert raw.call(more)["cursor"]["nextBatch"] == []


def test_an_aggregate_is_labelled_only_if_it_opens_a_stream(raw: RawClient) -> None:
    fail(raw, failCommands=["aggregate"], errorCode=91)
    assert raw.call(STREAM)["errorLabels"] == ["ResumableChangeStreamError"]
    assert "errorLabels" not in raw.call({**STREAM, "pipeline": [{"$match": {}}]})


def test_get_mores_that_never_wait(raw: RawClient) -> None:
    raw.call({"configureFailPoint": "disableAwaitDataForGetMoreCmd", "mode": "alwaysOn"})
    assert raw.call(get_more(raw))["cursor"]["nextBatch"] == []


def test_many_connections_fail_exactly_the_configured_times(server: RunningServer, raw: RawClient) -> None:
    fail(raw, {"times": 10}, failCommands=["ping"], errorCode=2)
    failures: list[int] = []

    def ping() -> None:
        with raw_client(server) as own:
            failures.extend(1 for _ in range(10) if own.call({"ping": 1})["ok"] == 0.0)

    threads = [threading.Thread(target=ping) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(failures) == 10


def test_a_get_more_waits_while_its_fail_point_is_on(items: Collection[Document]) -> None:
    client = items.database.client
    point = {"configureFailPoint": "waitAfterPinningCursorBeforeGetMoreBatch"}
    with items.find(batch_size=2) as cursor, ThreadPoolExecutor(1) as pool:
        assert [next(cursor)["_id"] for _ in range(2)] == [1, 2]
        entered = client.admin.command({**point, "mode": "alwaysOn"})["count"]
        waiting = pool.submit(next, cursor)
        waited = {"waitForFailPoint": point["configureFailPoint"], "timesEntered": entered + 1}
        client.admin.command({**waited, "maxTimeMS": 20_000})
        assert not waiting.done()
        client.admin.command({**point, "mode": "off"})
        assert waiting.result(10)["_id"] == 3


def test_a_fail_point_without_effect_can_be_set(client: MongoClient[Document]) -> None:
    command = {"configureFailPoint": "disableMatchExpressionOptimization", "mode": "alwaysOn"}
    assert client.admin.command(command)["ok"] == 1.0
    client.admin.command({**command, "mode": "off"})
