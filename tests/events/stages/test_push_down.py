"""Push-down only saves work: with and without it, a stream shows the same events."""

import random
from dataclasses import replace
from typing import Any

import pytest
from bson import Regex

from tailrace.bson.documents import decode
from tailrace.events.oplog_entry import parse_entry
from tailrace.events.scope import Scope
from tailrace.events.stages.namespace_filter import NamespaceFilter
from tailrace.events.stages.plan import Plan
from tailrace.events.stages.rewrites.push_down import PushedMatch, push_down
from tailrace.log.local_engine import LocalEngine
from tests.events.stages.streams import command, delete, insert, update
from tests.support.history import History
from tests.support.workload import generate

SEEDS = range(40)


def run(plan: Plan, history: History) -> list[bytes]:
    lookups = history.lookups()
    engine = LocalEngine(plan, {"": lookups})
    engine.push("", history.entries)
    return engine.drain()


def conditions(rng: random.Random, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a random filter on values that occur."""
    event = rng.choice(events)
    namespace = event.get("ns", {"db": "none", "coll": "none"})
    key = event.get("documentKey", {"_id": 1})
    updated = event.get("updateDescription", {}).get("updatedFields", {"a": 1})
    fields = [(f"updateDescription.updatedFields.{name}", updated[name]) for name in updated if plain(name)]
    leaf = rng.choice([
        {"operationType": event["operationType"]},
        {"operationType": {"$ne": event["operationType"]}},
        {"operationType": {"$in": ["insert", "update", "rename", "create"]}},
        {"operationType": {"$not": Regex("^d")}},
        {"clusterTime": {"$gte": event["clusterTime"]}},
        {"wallTime": {"$lte": event["wallTime"]}},
        {"ns.db": namespace["db"]},
        {"ns.coll": namespace.get("coll", "none")},
        {"ns.coll": {"$in": [namespace.get("coll", "none"), "x"]}},
        {"ns": namespace},
        {"to.coll": namespace.get("coll", "none")},
        {"to": {"$exists": False}},
        {"documentKey": key},
        {"documentKey._id": key["_id"]},
        {"documentKey._id": {"$exists": rng.random() < 0.5}},
        {"documentKey._id": {"$ne": key["_id"]}},
        {"fullDocument._id": {"$exists": rng.random() < 0.5}},
        {"fullDocument._id": key["_id"]},
        {"fullDocument": {"$exists": rng.random() < 0.5}},
        {"fullDocumentBeforeChange._id": key["_id"]},
        {"fullDocumentBeforeChange": None},
        {"updateDescription": {"$exists": rng.random() < 0.5}},
        {"updateDescription.removedFields": "a"},
        {"updateDescription.removedFields": {"$in": ["a", "b"]}},
        *({path: value} for path, value in fields),
        {"lsid": {"$exists": rng.random() < 0.5}},
        {"txnNumber": {"$exists": rng.random() < 0.5}},
        {"$expr": {"$eq": ["$operationType", event["operationType"]]}},
        {"$expr": {"$in": ["$ns.coll", [namespace.get("coll", "none")]]}},
        {"$expr": {"$and": [{"$eq": ["$ns.db", namespace["db"]]}, {"$eq": ["$operationType", "insert"]}]}},
    ])  # fmt: skip
    roll = rng.random()
    if roll < 0.5:
        return leaf
    operator = rng.choice(["$and", "$or", "$nor"])
    return {operator: [conditions(rng, events) for _ in range(rng.randrange(1, 3))]}


def plain(name: str) -> bool:
    return bool(name) and not set(name) & set("$.\0")


@pytest.mark.parametrize("seed", SEEDS)
def test_push_down_does_not_change_the_events(seed: int) -> None:
    rng = random.Random(seed)
    history = generate(seed, 40)
    namespaces = [ns for ns in history.namespaces if NamespaceFilter(Scope.cluster()).sees(ns)]
    for ns in (None, rng.choice(namespaces).partition(".")[0], rng.choice(namespaces)):
        scope = Scope.cluster() if ns is None else Scope.parse_ns(ns)
        spec = {
            "showExpandedEvents": rng.random() < 0.5,
            "showSystemEvents": rng.random() < 0.3 and (ns is None or "." not in ns),
            "fullDocument": rng.choice(["default", "updateLookup", "whenAvailable"]),
            "fullDocumentBeforeChange": rng.choice(["off", "whenAvailable"]),
        }
        events = [decode(raw) for raw in run(Plan.open(scope, spec), history)]
        if not events:
            continue
        for _ in range(4):
            pipeline = [{"$match": conditions(rng, events)}]
            plan = Plan.open(scope, spec, pipeline)
            without = replace(plan, pushed=PushedMatch())
            assert run(plan, history) == run(without, history), f"seed {seed}, {scope}, {spec}, {pipeline}"


def passed(user_filter: dict[str, Any], entries: list[bytes]) -> list[bool]:
    predicate = push_down(user_filter).operation
    assert predicate is not None
    return [predicate(parse_entry(raw)) for raw in entries]


def test_entries_are_dropped_before_they_are_transformed() -> None:
    entries = [
        insert(1, 1, a=5),
        update(2, 1, {"u": {"a": 6}}),
        delete(3, 1),
        command(4, {"drop": "orders"}),
        command(5, {"renameCollection": "shop.orders", "to": "shop.old", "stayTemp": False}),
    ]
    assert passed({"operationType": "delete"}, entries) == [False, False, True, False, False]
    assert passed({"operationType": {"$in": ["rename", "insert"]}}, entries) == [
        True,
        False,
        False,
        False,
        True,
    ]
    assert passed({"documentKey._id": 2}, entries) == [False] * 5
    assert passed({"fullDocument.a": 5}, entries) == [True, True, False, False, False]
    assert passed({"updateDescription.updatedFields.a": 6}, entries) == [False, True, False, False, False]
    assert passed({"updateDescription.removedFields": "a"}, entries) == [False] * 5
    assert passed({"ns.coll": "items"}, entries) == [False] * 5
    assert passed({"ns": {"db": "shop", "coll": "items"}}, entries) == [False] * 5
    assert passed({"ns": {"db": "other", "coll": 5}}, entries) == [False] * 5
    assert any(passed({"ns": {"db": "shop", "coll": "orders"}}, entries))
    assert passed({"to.coll": "old"}, entries) == [False, False, False, False, True]
    assert passed({"fullDocumentBeforeChange.a": 5}, entries) == [False, True, True, False, False]


@pytest.mark.parametrize(
    "user_filter", [{}, {"other": 1}, {"$or": [{"operationType": "insert"}, {"other": 1}]}]
)
def test_a_filter_that_cannot_be_rewritten_drops_no_entry(user_filter: dict[str, Any]) -> None:
    assert push_down(user_filter).operation is None
