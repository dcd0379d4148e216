"""Stages that show the server's own state: operations, sessions, statistics."""

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.principals import stored_principals
from tailrace.mongod.server.admin.collection_figures import described_statistics, shortest
from tailrace.mongod.server.admin.current_operations import all_operations, own_only
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.reads.read_state import ReadState
from tailrace.mongod.server.reads.targets import resolve
from tailrace.mongod.store.catalog import Collection
from tailrace.mongod.store.ddl.lookup import existing_collection
from tailrace.mongod.store.reader import Part
from tailrace.mongod.store.statistics import collection_statistics

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node

_CURRENT_OP_OPTIONS: Final = frozenset(
    {
        "allUsers", "idleConnections", "idleCursors", "idleSessions", "localOps", "truncateOps", "backtrace",
        "targetAllNodes",
    }
)  # fmt: skip
_SESSION_OPTIONS: Final = frozenset({"users", "allUsers"})
_COLL_STATS_OPTIONS: Final = frozenset(
    {"latencyStats", "storageStats", "count", "queryExecStats", "operationStats", "targetAllNodes"}
)


def server_source(
    context: Context, state: ReadState, name: str, spec: Any, database: str, collection: str | None
) -> Iterable[dict[str, Any]]:
    """The documents of a stage, by its name."""
    if not isinstance(spec, Mapping):
        code = {"$collStats": 5447000, "$indexStats": 28803}.get(name, ErrorCode.FailedToParse)
        raise CommandError(code, f"{name} must take a nested object but found: {type_name(spec)}")
    if name == "$currentOp":
        return _operations(context, spec, database)
    if name in ("$listLocalSessions", "$listSessions"):
        return _sessions(context, name, spec)
    if name == "$planCacheStats":
        return ()
    if collection is None:
        raise CommandError(ErrorCode.InvalidNamespace, f"{name} must be run on a collection")
    if name == "$collStats":
        return _collection_statistics(context, state, spec, database, collection)
    found = resolve(state.reader.catalog, database, collection).collection
    return () if found is None else _index_statistics(context, state, found)


def _check_options(name: str, spec: Mapping[str, Any], known: frozenset[str]) -> None:
    for option in spec:
        if option not in known:
            raise CommandError(ErrorCode.FailedToParse, f"Unrecognized option '{option}' in {name} stage.")


def _operations(context: Context, spec: Mapping[str, Any], database: str) -> Iterable[dict[str, Any]]:
    if database != "admin":
        reason = "$currentOp must be run against the 'admin' database with {aggregate: 1}"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    _check_options("$currentOp", spec, _CURRENT_OP_OPTIONS)
    for option, value in spec.items():
        if not isinstance(value, bool):
            reason = f"The '{option}' parameter of the $currentOp stage must be a boolean value"
            raise CommandError(ErrorCode.FailedToParse, reason)
    return all_operations(
        context.node,
        is_local=bool(spec.get("localOps")),
        owner=own_only(context, is_wanted=not spec.get("allUsers")),
        truncated=bool(spec.get("truncateOps")),
        idle_connections=bool(spec.get("idleConnections")),
        idle_cursors=bool(spec.get("idleCursors")),
        idle_sessions=bool(spec.get("idleSessions", True)),
    )


def _sessions(context: Context, name: str, spec: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    _check_options(name, spec, _SESSION_OPTIONS)
    shown = _shown_digests(context, spec)
    for session in context.node.sessions:
        if shown is not None and not any(digest in session.lsid for digest in shown):
            continue
        yield {"_id": decode(session.lsid), "lastUse": DatetimeMS(int(session.last_use * 1000))}


def _shown_digests(context: Context, spec: Mapping[str, Any]) -> list[bytes] | None:
    """The users whose sessions are shown; None for all."""
    user = context.client.user
    if context.client.guard is None or user is None or spec.get("allUsers"):
        return None
    users = spec.get("users")
    named = stored_principals(users, "user") if users else [user.principal]
    return [principal.digest for principal in named]


def _collection_statistics(
    context: Context, state: ReadState, spec: Mapping[str, Any], database: str, name: str
) -> Iterable[dict[str, Any]]:
    """One document, or one for each shard that has the collection."""
    _check_options("$collStats", spec, _COLL_STATS_OPTIONS)
    ns = f"{database}.{name}"
    if "storageStats" in spec or "count" in spec:
        existing_collection(state.reader.catalog, database, name)
    collection = state.reader.catalog.collection(ns)
    if collection is None:
        return [_figures_of(context.node, None, ns, spec)]
    return [
        _figures_of(context.node.holding(part.shard), part, ns, spec)
        for part in state.reader.parts(collection)
    ]


def _figures_of(node: "Node", part: Part | None, ns: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "ns": ns,
        "host": node.address,
        "localTime": DatetimeMS(node.wall.milliseconds()),
    }
    if part is not None and part.shard is not None:
        shown["shard"] = part.shard
    if "latencyStats" in spec:
        wanted = spec["latencyStats"]
        with_histograms = isinstance(wanted, Mapping) and bool(wanted.get("histograms"))
        shown["latencyStats"] = node.usage.of(ns).latencies(with_histograms=with_histograms)
    if part is not None and ("storageStats" in spec or "count" in spec):
        found = collection_statistics(part.reader, part.collection)
        if "storageStats" in spec:
            scale = _scale(spec["storageStats"])
            figures = described_statistics(part.collection, found, scale, node)
            del figures["ns"]
            shown["storageStats"] = figures
        if "count" in spec:
            shown["count"] = shortest(found.count)
    if "queryExecStats" in spec:
        shown["queryExecStats"] = {
            "collectionScans": {"total": Int64(0), "nonTailable": Int64(0)},
        }
    return shown


def _scale(spec: Any) -> int:
    scale = spec.get("scale", 1) if isinstance(spec, Mapping) else 1
    if isinstance(scale, bool) or not isinstance(scale, int | float) or scale < 1:
        raise CommandError(ErrorCode.BadValue, "the scale of $collStats must be a number of at least 1")
    return int(scale)


def _index_statistics(context: Context, state: ReadState, collection: Collection) -> Iterable[dict[str, Any]]:
    for part in state.reader.parts(collection):
        node = context.node.holding(part.shard)
        seconds = time.monotonic() - node.started
        since = DatetimeMS(node.wall.milliseconds() - int(seconds * 1000))
        for index in part.collection.indexes:
            # A router counts its queries itself, by its own idents of indexes.
            uses = node.counters.index_uses[index.ident]
            own = collection.index(index.name)
            if part.shard is not None and own is not None:
                uses += context.node.counters.index_uses[own.ident]
            shown = {
                "name": index.name,
                "key": dict(index.spec["key"]),
                "host": node.address,
                "accesses": {"ops": Int64(uses), "since": since},
                "spec": dict(index.spec),
            }
            yield shown if part.shard is None else {**shown, "shard": part.shard}
