"""Choose a stream over a history at random: its scope, its options, its `$match`."""

import random
from collections.abc import Sequence
from typing import Any, Final

from bson import Timestamp

from tailrace.bson import documents as bsondocs
from tailrace.bson.values import Undefined
from tailrace.events.scope import Scope
from tests.support.background import METRICS
from tests.support.deployment import INTERNAL_DATABASES
from tests.support.history import History
from tests.support.streams import Stream

_TYPES: Final = ("insert", "update", "replace", "delete", "drop", "rename", "create", "dropDatabase")
_FLAGS: Final = ("showExpandedEvents", "showSystemEvents", "showMigrationEvents", "showRawUpdateDescription")


def is_users(namespace: str) -> bool:
    """Whether an ordinary stream shows the changes of a namespace."""
    database, _, name = namespace.partition(".")
    return database not in INTERNAL_DATABASES and not name.startswith("system.") and name != METRICS


def any_scope(history: History, rng: random.Random) -> Scope:
    """The cluster, or a database or collection with changes; each one time in three."""
    users = [namespace for namespace in history.namespaces if is_users(namespace)]
    kind = rng.randrange(3)
    if not users or not kind:
        return Scope.cluster()
    namespace = rng.choice(users)
    return Scope.parse_ns(namespace if kind == 1 else namespace.partition(".")[0])


def any_spec(history: History, rng: random.Random) -> dict[str, Any]:
    """Options of a stream that begins with the history."""
    spec: dict[str, Any] = {flag: True for flag in _FLAGS if rng.random() < 0.4}
    if rng.random() < 0.5:
        spec["fullDocument"] = rng.choice(("updateLookup", "whenAvailable"))
    if rng.random() < 0.5:
        spec["fullDocumentBeforeChange"] = "whenAvailable"
    return {**spec, "startAtOperationTime": history.start}


def any_stream(history: History, rng: random.Random) -> Stream:
    scope = any_scope(history, rng)
    return Stream(history, scope, any_spec(history, rng), raw_data=rng.random() < 0.3)


def any_filter(events: Sequence[bytes], rng: random.Random) -> dict[str, Any]:
    """A `$match` on fields that the events have or lack, of the kinds that are pushed down to the oplog."""
    event = bsondocs.decode(rng.choice(events)) if events else {}
    key = event.get("documentKey", {"_id": 1})
    document = event.get("fullDocument") or {"a": 1}
    # Nothing can be compared with undefined, and a path cannot reach a name with a dot.
    comparable = [
        (name, value)
        for name, value in document.items()
        if name and "." not in name and not isinstance(value, Undefined)
    ]
    name, value = rng.choice(comparable or [("a", 1)])
    conditions: tuple[dict[str, Any], ...] = (
        {"operationType": event.get("operationType", "insert")},
        {"operationType": {"$in": rng.sample(_TYPES, 3)}},
        {"operationType": {"$nin": rng.sample(_TYPES, 2)}},
        {"operationType": {"$exists": rng.random() < 0.5}},
        {"ns": event.get("ns", {"db": "shop"})},
        {"ns.coll": {"$regex": "^o"}},
        {"ns.db": {"$ne": "shop"}},
        {"to.coll": {"$exists": rng.random() < 0.5}},
        {"to": event.get("to", {"db": "shop", "coll": "orders"})},
        {"documentKey._id": {"$eq": key.get("_id")}},
        {"documentKey": {"$eq": key}},
        {"documentKey._id": {"$type": "string"}},
        {f"fullDocument.{name}": {"$eq": value}},
        {f"fullDocument.{name}": {"$exists": rng.random() < 0.5}},
        {"fullDocument._id": {"$ne": key.get("_id")}},
        {"fullDocumentBeforeChange._id": {"$eq": key.get("_id")}},
        {"fullDocumentBeforeChange": None},
        {"updateDescription.updatedFields.a": {"$exists": rng.random() < 0.5}},
        {"updateDescription.removedFields": rng.choice(("a", "b", "nested"))},
        {"updateDescription.truncatedArrays": {"$ne": []}},
        {"updateDescription": {"$exists": rng.random() < 0.5}},
        {"clusterTime": {"$gte": event.get("clusterTime", Timestamp(1, 1))}},
        {"txnNumber": event.get("txnNumber", 1)},
        {"lsid": {"$exists": rng.random() < 0.5}},
        {"$expr": {"$eq": ["$operationType", event.get("operationType", "insert")]}},
        {"$expr": {"$eq": ["$ns.coll", "orders"]}},
    )
    chosen = rng.sample(conditions, rng.choice((1, 1, 2)))
    if rng.random() < 0.3:
        return {rng.choice(("$or", "$nor", "$and")): chosen}
    return {field: condition for part in chosen for field, condition in part.items()}
