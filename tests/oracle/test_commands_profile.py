"""`profile`, `top` and `latencyStats` beside the real server; times are left out."""

from typing import Any

import pytest
from bson import Int64

from tests.oracle.comparison import Document
from tests.oracle.twins import Twins

PROFILES: list[Document] = [
    {"profile": -1},
    {"profile": 0},
    {"profile": 1, "slowms": 50},
    {"profile": 2, "sampleRate": 0.5},
    {"profile": 2, "sampleRate": 1.5},
    {"profile": 2, "sampleRate": 1},
    {"profile": 3},
    {"profile": -2},
    {"profile": 2, "slowms": "x"},
    {"profile": 1, "filter": {"op": "query"}},
    {"profile": -1},
    {"profile": 1, "filter": {"op": "query", "millis": {"$gte": 5}, "command.comment": "x"}},
    {"profile": 1, "filter": {"$or": [{"op": "query"}, {"ns": "test.c"}]}},
    {"profile": 1, "filter": "unset"},
    {"profile": 1, "filter": "x"},
    {"profile": 1, "filter": 1},
    {"profile": 1, "filter": {"other": 1}},
    {"profile": 1, "filter": {"$foo": 1}},
    {"profile": 0, "slowms": 100, "sampleRate": 1.0},
    {"profile": "x"},
    {"profile": True},
    {"profile": None},
    {"profile": 1.9},
    {"profile": 0, "foo": 1},
    {"profile": -1, "slowms": 7.7},
    {"profile": -1, "slowms": -5},
    {"profile": 0, "slowms": 10**12},
    {"profile": 0, "slowms": 100},
]

COMMANDS: list[Document] = [
    {"create": "other"},
    {"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2}]},
    {"find": "c", "filter": {"a": 1}, "comment": "foo"},
    {"count": "c", "query": {"a": 1}},
    {"distinct": "c", "key": "a"},
    {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "cursor": {}},
    {
        "update": "c",
        "updates": [
            {"q": {"_id": 1}, "u": {"$set": {"b": 1}}, "multi": False, "upsert": False},
            {"q": {"_id": 9}, "u": {"$set": {"b": 1}}, "multi": False, "upsert": True},
        ],
    },
    {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}, {"q": {"_id": 3}, "limit": 1}]},
    {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"c": 1}}},
    {"find": "c", "filter": {"$foo": 1}},
    {"insert": "c", "documents": [{"_id": 1}]},
    {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
    {"listCollections": 1},
    {"listIndexes": "c"},
    {"killCursors": "c", "cursors": [Int64(5)]},
    {"find": "nothing"},
    {"ping": 1},
    {"dropIndexes": "c", "index": "a"},
    {"drop": "other"},
]


def test_settings(twins: Twins) -> None:
    for command in PROFILES:
        twins.same(command)


def test_entries(twins: Twins) -> None:
    """What both servers write of each command; the real one adds figures on plans, locks and concerns."""
    twins.same({"profile": 2}, "profiled")
    for command in COMMANDS:
        twins.run(command, "profiled")
    twins.run({"profile": 0}, "profiled")
    pair = twins.run({"find": "system.profile", "batchSize": 1000}, "profiled")
    shown = [_entries(reply["cursor"]["firstBatch"]) for reply in (pair.real, pair.ours)]
    assert shown[0] == shown[1]
    assert len(shown[0]) > 15


def _entries(batch: list[Document]) -> list[Document]:
    fields = ("op", "ns", "command", "ninserted", "cursorExhausted", "nreturned", "ok", "errCode", "errName")
    return [{field: entry[field] for field in fields if field in entry} for entry in batch]


def test_counts(twins: Twins) -> None:
    for command in COMMANDS:
        twins.run(command, "counted")
    pair = twins.run({"top": 1}, "admin")
    shown = [_counts(reply["totals"]) for reply in (pair.real, pair.ours)]
    assert shown[0] == shown[1]
    stages: list[Document] = [{"$collStats": {"latencyStats": {}}}]
    pair = twins.run({"aggregate": "c", "pipeline": stages, "cursor": {}}, "counted")
    latencies = [reply["cursor"]["firstBatch"][0]["latencyStats"] for reply in (pair.real, pair.ours)]
    assert [list(each) for each in latencies] == [["reads", "writes", "commands", "transactions"]] * 2
    for kind in ("reads", "writes"):
        assert latencies[0][kind]["ops"] == latencies[1][kind]["ops"], kind
        assert type(latencies[0][kind]["latency"]) is type(latencies[1][kind]["latency"])


def _counts(totals: Document) -> dict[str, Any]:
    return {
        ns: {kind: (type(each["time"]), type(each["count"]), each["count"]) for kind, each in used.items()}
        for ns, used in totals.items()
        if ns.startswith("counted.") and not ns.endswith((".other", ".$cmd"))
    }


@pytest.mark.parametrize("command", [{"top": 1, "foo": 1}, {"top": 1}], ids=str)
def test_top_needs_admin(twins: Twins, command: Document) -> None:
    twins.same(command)
