"""`dbCheck` beside a real server: replies, oplog entries, and streams that see nothing of it."""

from typing import Any

import pytest
from bson import Int64

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins

_DATABASE = "db_check"
_REFUSED: list[tuple[str, Document]] = [
    (_DATABASE, {"dbCheck": "missing"}),
    (_DATABASE, {"dbCheck": "view"}),
    (_DATABASE, {"dbCheck": "three", "bogus": 1}),
    (_DATABASE, {"dbCheck": 1, "maxCount": 1}),
    (_DATABASE, {"dbCheck": True}),
    (_DATABASE, {"dbCheck": None}),
    (_DATABASE, {"dbCheck": "three", "maxBatchTimeMillis": 1}),
    (_DATABASE, {"dbCheck": "three", "maxDocsPerBatch": 0}),
    (_DATABASE, {"dbCheck": "three", "maxBytesPerBatch": 0}),
    (_DATABASE, {"dbCheck": "three", "maxCount": "x"}),
    ("local", {"dbCheck": 1}),
    ("local", {"dbCheck": "oplog.rs"}),
    ("no_such_database", {"dbCheck": 1}),
]
_ACCEPTED: list[Document] = [
    {"dbCheck": "three"},
    {"dbCheck": "none"},
    {"dbCheck": "three", "minKey": 1, "maxKey": 2},
    {"dbCheck": "three", "minKey": 5, "maxKey": 2},
    {"dbCheck": "three", "maxCount": Int64(1)},
    {"dbCheck": "three", "maxCount": 3},
    {"dbCheck": "three", "maxSize": 1},
    {"dbCheck": "three", "maxDocsPerBatch": 2},
    {"dbCheck": "three", "maxDocsPerBatch": 3},
    {"dbCheck": "three", "maxDocsPerBatch": 1, "maxCount": 2},
    {"dbCheck": "large", "maxBytesPerBatch": 200 << 10},
    {"dbCheck": "large", "maxSize": 150 << 10},
    {"dbCheck": "three", "snapshotRead": False},
    {"dbCheck": "three", "batchWriteConcern": {"w": 1}},
    {"dbCheck": 1, "$db": "db_check_one"},
]


@pytest.fixture(scope="module")
def filled(twins: Twins) -> Twins:
    three: list[Any] = [{"_id": number, "text": "x" * number} for number in range(3)]
    twins.same({"insert": "three", "documents": three[::-1]}, _DATABASE)
    large = [{"_id": number, "text": "x" * (90 << 10)} for number in range(5)]
    twins.same({"insert": "large", "documents": large}, _DATABASE)
    twins.same({"create": "none"}, _DATABASE)
    twins.same({"insert": "one", "documents": three}, "db_check_one")
    return twins


@pytest.mark.parametrize(("database", "command"), _REFUSED, ids=str)
def test_refusals(filled: Twins, database: str, command: Document) -> None:
    filled.same(command, database)


def test_what_is_logged(filled: Twins) -> None:
    since = filled.operation_time("before_checks")
    for number, command in enumerate(_ACCEPTED):
        pair = filled.both({**command, "$db": command.get("$db", _DATABASE)})
        assert (pair.real["ok"], pair.ours["ok"]) == (True, True), pair
        assert type(pair.ours["ok"]) is type(pair.real["ok"])
        _wait_for_stops(filled, number + 1, since)
    filled.same({"insert": "three", "documents": [{"_id": "after"}]}, _DATABASE)
    assert len(filled.same_oplog(since)) > 2 * len(_ACCEPTED)
    stage = {"startAtOperationTime": since}
    events = filled.same_events(stage, collection="three", database=_DATABASE, count=1)
    assert [event["documentKey"] for event in events] == [{"_id": "after"}]


def _wait_for_stops(twins: Twins, count: int, since: Any) -> None:
    """A mongod works after its reply: wait until it has logged the end."""
    query = {"ts": {"$gt": since}, "o.dbCheck": "admin.$cmd", "o.type": "stop"}
    command = {"find": "oplog.rs", "filter": query, "$db": "local"}
    for _ in range(500):
        if len(twins.real.call(command)["cursor"]["firstBatch"]) == count:
            return
    raise AssertionError("the real server does not end its check")
