"""Streams of changes and commands beside the real server: every scope, resumed after every event."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from bson import Binary, Int64

from tests.oracle.comparison import Document, value_differences
from tests.oracle.seeds import SEEDS
from tests.oracle.twins import Pair, Recalled, Twins, end_cursors

DATABASE: Final = "resumed"
SESSION: Final[Document] = {"lsid": {"id": Binary.from_uuid(uuid4())}}
IN_TRANSACTION: Final[Document] = {**SESSION, "txnNumber": Int64(1), "autocommit": False}
HISTORY: Final[list[Document]] = [
    {"create": "a", "changeStreamPreAndPostImages": {"enabled": True}},
    {"insert": "a", "documents": [{"_id": 1, "x": 1}, {"_id": "two", "x": [1, 2]}]},
    {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 2, "y.z": 1}}}]},
    {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"x": 3}}]},
    {"delete": "a", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    {"createIndexes": "a", "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
    {"collMod": "a", "index": {"name": "x_1", "hidden": True}},
    {"dropIndexes": "a", "index": "x_1"},
    {"insert": "a", "documents": [{"_id": 3}], **IN_TRANSACTION, "startTransaction": True},
    {"update": "a", "updates": [{"q": {"_id": "two"}, "u": {"$set": {"t": 1}}}], **IN_TRANSACTION},
    {"delete": "a", "deletes": [{"q": {"_id": 3}, "limit": 1}], **IN_TRANSACTION},
    {"insert": "other", "documents": [{"_id": 1}]},
    {"create": "seen", "viewOn": "a", "pipeline": []},
    {"collMod": "seen", "viewOn": "a", "pipeline": [{"$match": {}}]},
    {"drop": "seen"},
]
AFTER_COMMIT: Final[list[tuple[Document, str]]] = [
    ({"renameCollection": f"{DATABASE}.a", "to": f"{DATABASE}.b"}, "admin"),
    ({"insert": "b", "documents": [{"_id": 4}]}, DATABASE),
    ({"insert": "a", "documents": [{"_id": 5}]}, DATABASE),
    ({"renameCollection": f"{DATABASE}.b", "to": f"{DATABASE}.a", "dropTarget": True}, "admin"),
    ({"insert": "a", "documents": [{"_id": 6}]}, DATABASE),
    ({"drop": "a"}, DATABASE),
    ({"insert": "a", "documents": [{"_id": 7}]}, DATABASE),
    ({"drop": "a"}, DATABASE),
    ({"drop": "other"}, DATABASE),
    ({"dropDatabase": 1}, DATABASE),
    ({"insert": "a", "documents": [{"_id": 8}]}, DATABASE),
]
SCOPES: Final[list[tuple[str | int, str]]] = [("a", DATABASE), ("b", DATABASE), (1, DATABASE), (1, "admin")]
OPTIONS: Final[list[Document]] = [
    {},
    {"showExpandedEvents": True},
    {"showSystemEvents": True, "showExpandedEvents": True},
    {"showSystemEvents": True, "fullDocument": "updateLookup"},
    {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"},
]


@pytest.fixture(scope="module")
def began(twins: Twins) -> Iterator[Recalled]:
    """When the history began; no-ops would move the positions of one server only."""
    for value in (False, True):
        twins.run({"setParameter": 1, "writePeriodicNoops": value}, "admin")
        if value:
            return
        before = twins.operation_time("before the history")
        for command in HISTORY:
            twins.same(command, DATABASE)
        twins.same({"commitTransaction": 1, **IN_TRANSACTION}, "admin")
        for command, database in AFTER_COMMIT:
            twins.same(command, database)
        yield before


def spec_of(scope: tuple[str | int, str], options: Document) -> Document:
    return {**options, "allChangesForCluster": True} if scope == (1, "admin") else options


def parts(twins: Twins, scope: tuple[str | int, str], options: Document, began: Recalled) -> Iterator[Pair]:
    """A stream to its end, and again after each invalidation."""
    collection, database = scope
    start: Document = {"startAtOperationTime": began}
    for number in range(20):
        pair = twins.events(
            {**spec_of(scope, options), **start}, collection=collection, database=database, count=1
        )
        yield pair
        events = pair.real.get("events")
        if not events or events[-1]["operationType"] != "invalidate" or pair.differences:
            return
        start = {"startAfter": twins.remember(f"invalidation {number}", pair, ["events", -1, "_id"])}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_a_history(twins: Twins, began: Recalled, scope: tuple[str | int, str], options: Document) -> None:
    for pair in parts(twins, scope, options, began):
        assert not pair.differences, f"{scope} {options}\n" + "\n".join(map(str, pair.differences[:5]))


@pytest.mark.parametrize("options", OPTIONS[:3] if len(SEEDS) > 1 else OPTIONS[1:2], ids=str)
@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_resuming_after_every_event(
    twins: Twins, began: Recalled, scope: tuple[str | int, str], options: Document
) -> None:
    different = []
    for pair in parts(twins, scope, options, began):
        assert not pair.differences, "\n".join(map(str, pair.differences[:5]))
        for number, event in enumerate(pair.real["events"]):
            token = twins.remember("token", pair, ["events", number, "_id"])
            for collection, database in SCOPES:
                for start in ("resumeAfter", "startAfter"):
                    opened = opened_at(twins, (collection, database), {**options, start: token})
                    if found := next(value_differences("", opened.real, opened.ours), None):
                        different.append(
                            f"{scope} {event['operationType']} of {event.get('ns')}, {start} on "
                            f"{database}.{collection}: {found}"
                        )
    assert not different, f"{len(different)}\n" + "\n".join(different[:20])


def opened_at(twins: Twins, scope: tuple[str | int, str], options: Document) -> Pair:
    """What the first batch shows: codes, and types and keys of events."""
    collection, database = scope
    stream = {"$changeStream": spec_of(scope, options)}
    pair = twins.run({"aggregate": collection, "pipeline": [stream], "cursor": {}}, database)
    end_cursors(twins, pair)
    return Pair(shown(pair.real), shown(pair.ours))


def shown(reply: Document) -> Document:
    if not reply.get("ok"):
        return {"code": reply.get("code"), "labels": reply.get("errorLabels")}
    cursor: dict[str, Any] = reply["cursor"]
    return {
        "events": cursor["firstBatch"],
        "open": cursor["id"] != 0,
        "position": cursor["postBatchResumeToken"],
    }
