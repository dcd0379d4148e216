"""Step-down and re-election, as drivers see them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import NotPrimaryError

from tailrace.bson.documents import decode
from tests.mongod.server.raw_client import RawClient, raw_client
from tests.mongod.server.running import Document, RunningServer, connected, running, wait_for
from tests.mongod.server.test_sessions import new_id

FOREVER = 3600
INSERT: Document = {"insert": "orders", "documents": [{"a": 1}], "$db": "shop"}


@pytest.fixture
def raw(own_server: RunningServer) -> Iterator[RawClient]:
    with raw_client(own_server) as raw:
        yield raw


def step_down(raw: RawClient, seconds: int = FOREVER) -> None:
    assert raw.call({"replSetStepDown": seconds, "force": True})["ok"] == 1.0


def test_a_member_that_stepped_down_is_a_secondary(raw: RawClient, own_server: RunningServer) -> None:
    before = raw.call({"hello": 1})
    step_down(raw)
    after = raw.call({"hello": 1})
    assert after["isWritablePrimary"] is False
    assert after["secondary"] is True
    assert "primary" not in after
    assert "electionId" not in after
    assert after["me"] == own_server.server.address
    assert after["topologyVersion"]["counter"] == before["topologyVersion"]["counter"] + 1
    status = raw.call({"replSetGetStatus": 1})
    assert status["myState"] == 2
    assert status["members"][0]["stateStr"] == "SECONDARY"


def test_writes_are_refused(raw: RawClient) -> None:
    step_down(raw)
    reply = raw.call(INSERT)
    assert reply["code"] == 10107
    assert reply["codeName"] == "NotWritablePrimary"
    assert reply["topologyVersion"]["counter"] == 1
    assert "errorLabels" not in reply
    retryable = raw.call({**INSERT, "lsid": new_id(), "txnNumber": Int64(1)})
    assert set(retryable["errorLabels"]) == {"RetryableWriteError", "NoWritesPerformed"}
    transaction = {"lsid": new_id(), "txnNumber": Int64(1), "autocommit": False, "startTransaction": True}
    assert raw.call({**INSERT, **transaction})["errorLabels"] == ["TransientTransactionError"]


def test_reads_need_a_read_preference(raw: RawClient) -> None:
    raw.call(INSERT)
    step_down(raw)
    find: Document = {"find": "orders", "$db": "shop"}
    refused = raw.call(find)
    assert refused["code"] == 13435
    assert refused["topologyVersion"]["counter"] == 1
    allowed = raw.call({**find, "$readPreference": {"mode": "secondaryPreferred"}})
    assert len(allowed["cursor"]["firstBatch"]) == 1


def test_stepping_down_twice(raw: RawClient) -> None:
    step_down(raw)
    assert raw.call({"replSetStepDown": 1, "force": True})["code"] == 10107


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"replSetStepDown": -1}, 2),
        ({"replSetStepDown": 5}, 2),
        ({"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": -1}, 2),
        ({"replSetStepDown": 60, "secondaryCatchUpPeriodSecs": 61}, 2),
        ({"replSetStepDown": "now"}, 14),
        ({"replSetStepDown": 60, "later": 1}, 40415),
    ],
)
def test_wrong_step_downs(server: RunningServer, fields: Document, code: int) -> None:
    with raw_client(server) as raw:
        assert raw.call(fields)["code"] == code
        assert raw.call({"hello": 1})["isWritablePrimary"] is True


def test_the_member_is_elected_again_in_a_new_term(raw: RawClient, own_server: RunningServer) -> None:
    before = raw.call({"hello": 1})
    step_down(raw, 1)
    version = raw.call({"hello": 1})["topologyVersion"]
    after = raw.call({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10_000})
    assert after["isWritablePrimary"] is True
    assert after["electionId"] > before["electionId"]
    assert after["topologyVersion"]["counter"] == before["topologyVersion"]["counter"] + 2
    assert raw.call(INSERT)["n"] == 1
    config = raw.call({"replSetGetConfig": 1})["config"]
    assert config["term"] == 2
    newest = raw.call({"find": "oplog.rs", "$db": "local", "filter": {"op": "n"}, "sort": {"$natural": -1}})
    entry = newest["cursor"]["firstBatch"][0]
    assert entry["o"] == {"msg": "new primary"}
    assert entry["t"] == 2


def test_a_streaming_hello_shows_it_at_once(raw: RawClient, own_server: RunningServer) -> None:
    with raw_client(own_server) as monitor:
        version = monitor.call({"hello": 1})["topologyVersion"]
        hello: Document = {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60_000}
        monitor.send(hello, exhaust_allowed=True)
        wait_for(lambda: len(own_server.server.first.operations) == 1)
        step_down(raw)
        assert decode(monitor.receive().document)["isWritablePrimary"] is False
        own_server.call(own_server.server.first.step_up())
        assert decode(monitor.receive().document)["isWritablePrimary"] is True


def test_waiting_commands_are_interrupted(raw: RawClient, own_server: RunningServer) -> None:
    block: Document = {"failCommands": ["find"], "blockConnection": True, "blockTimeMS": 60_000}
    raw.call({"configureFailPoint": "failCommand", "mode": {"times": 1}, "data": block})
    with raw_client(own_server) as reader:
        reader.send({"find": "orders", "$db": "shop"})
        wait_for(lambda: len(own_server.server.first.operations) == 1)
        step_down(raw)
        reply = decode(reader.receive().document)
        assert reply["code"] == 11602
        assert reply["codeName"] == "InterruptedDueToReplStateChange"
        assert reply["topologyVersion"]["counter"] == 1


def open_stream(raw: RawClient) -> Int64:
    pipeline: list[Document] = [{"$changeStream": {}}]
    opened = raw.call({"aggregate": "orders", "pipeline": pipeline, "cursor": {}, "$db": "shop"})
    cursor_id: Int64 = opened["cursor"]["id"]
    return cursor_id


def test_a_stream_that_waits_ends_with_a_resumable_error(raw: RawClient, own_server: RunningServer) -> None:
    with raw_client(own_server) as watcher:
        more: Document = {"getMore": open_stream(watcher), "collection": "orders", "$db": "shop"}
        watcher.send({**more, "maxTimeMS": 60_000})
        wait_for(lambda: len(own_server.server.first.operations) == 1)
        step_down(raw)
        reply = decode(watcher.receive().document)
        assert reply["code"] == 11602
        assert reply["errorLabels"] == ["ResumableChangeStreamError"]
        assert watcher.call(more)["code"] == 43


def test_an_idle_stream_gets_the_error_with_its_next_batch(raw: RawClient) -> None:
    more: Document = {"getMore": open_stream(raw), "collection": "orders", "$db": "shop"}
    step_down(raw)
    reply = raw.call(more)
    assert reply["code"] == 11602
    assert reply["errorLabels"] == ["ResumableChangeStreamError"]


def test_a_driver_waits_for_the_new_primary(own_server: RunningServer) -> None:
    with connected(own_server) as client:
        orders = client["shop"]["orders"]
        orders.insert_one({"_id": 1})
        client.admin.command({"replSetStepDown": 1, "force": True})
        orders.insert_one({"_id": 2})
        assert [order["_id"] for order in orders.find()] == [1, 2]


def test_a_driver_without_retries_gets_the_error(own_server: RunningServer) -> None:
    host, port = own_server.address
    with MongoClient[Document](host, port, directConnection=True, retryWrites=False) as client:
        client["shop"]["orders"].insert_one({})
        own_server.call(own_server.server.first.step_down(FOREVER))
        with pytest.raises(NotPrimaryError):
            client["shop"]["orders"].insert_one({})


def test_a_watch_continues_after_a_step_down(own_server: RunningServer) -> None:
    with connected(own_server) as client:
        orders = client["shop"]["orders"]
        seen: list[int] = []
        with orders.watch() as stream:
            orders.insert_one({"_id": 1})
            seen.append(next(stream)["documentKey"]["_id"])

            def follow() -> None:
                while len(seen) < 3:
                    seen.append(next(stream)["documentKey"]["_id"])

            follower = threading.Thread(target=follow)
            follower.start()
            client.admin.command({"replSetStepDown": 1, "force": True})
            orders.insert_one({"_id": 2})
            orders.insert_one({"_id": 3})
            follower.join(timeout=20)
        assert seen == [1, 2, 3]


def test_each_start_is_a_new_term(tmp_path: Path) -> None:
    terms = []
    for _ in range(3):
        with running(data=tmp_path) as server, connected(server) as client:
            terms.append(client.admin.command("replSetGetStatus")["term"])
    assert terms == [1, 2, 3]


def test_stopping_while_stepped_down(raw: RawClient, own_server: RunningServer) -> None:
    step_down(raw)
    own_server.call(own_server.server.stop())
    assert own_server.messages()[-1] == "Shut down"


def test_stepping_up_early(
    raw: RawClient, own_server: RunningServer, own_client: MongoClient[Document]
) -> None:
    step_down(raw)
    own_server.call(own_server.server.first.step_up())
    own_server.call(own_server.server.first.step_up())
    assert raw.call({"replSetGetStatus": 1})["term"] == 2
    own_client["shop"]["orders"].insert_one({})
