"""The sections of serverStatus, each a function of the node."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bson import DatetimeMS, Int64

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.admin import process_info

if TYPE_CHECKING:
    from tailrace.mongod.server.node import Node
    from tailrace.mongod.server.replica_set.member import Member

_MICROSECONDS: Final = 1_000_000

Section: TypeAlias = Callable[[Any], dict[str, Any] | None]
"""Describes a node; None leaves the section out."""


def head(node: "Node") -> dict[str, Any]:
    """The fields that begin every serverStatus; they cannot be left out."""
    uptime = time.monotonic() - node.started
    return {
        "host": node.address,
        "version": node.release.version,
        "process": "tailrace",
        "pid": Int64(os.getpid()),
        "uptime": float(int(uptime)),
        "uptimeMillis": Int64(int(uptime * 1000)),
        "uptimeEstimate": Int64(int(uptime)),
        "localTime": DatetimeMS(node.wall.milliseconds()),
    }


def asserts(_node: "Node") -> dict[str, Any]:
    """Always zero, for monitoring tools; this server counts failures by command."""
    return {"regular": 0, "warning": 0, "msg": 0, "user": 0, "tripwire": 0, "rollovers": 0}


def connections(node: "Node") -> dict[str, Any]:
    open_now = len(node.listener.connections)
    hellos = [context for context in node.operations.values() if context.entry.name == "hello"]
    streaming = [context for context in hellos if "topologyVersion" in context.command]
    return {
        "current": open_now,
        "available": node.options.max_connections - open_now,
        "totalCreated": node.counters.connections_created,
        "rejected": node.counters.connections_rejected,
        "active": len({context.client.id for context in node.operations.values()}),
        "exhaustHello": sum(context.exhaust_allowed for context in streaming),
        "awaitingTopologyChanges": len(streaming),
    }


def extra_info(_node: "Node") -> dict[str, Any]:
    user, system = process_info.processor_seconds()
    return {
        "note": "fields vary by platform",
        "user_time_us": Int64(int(user * _MICROSECONDS)),
        "system_time_us": Int64(int(system * _MICROSECONDS)),
        **{name: Int64(number) for name, number in process_info.resource_use().items()},
    }


def global_lock(node: "Node") -> dict[str, Any]:
    """There is no queue for a lock; every running command counts as active."""
    contexts = list(node.operations.values())
    writers = sum(context.entry.is_write for context in contexts)
    readers = len(contexts) - writers
    return {
        "totalTime": Int64(int((time.monotonic() - node.started) * _MICROSECONDS)),
        "currentQueue": {"total": 0, "readers": 0, "writers": 0},
        "activeClients": {"total": len(contexts), "readers": readers, "writers": writers},
    }


def logical_sessions(node: "Node") -> dict[str, Any]:
    return {"activeSessionsCount": len(node.sessions), "sessionCatalogSize": len(node.sessions)}


def network(node: "Node") -> dict[str, Any]:
    counted = node.counters.network
    return {
        "bytesIn": Int64(counted.bytes_in),
        "bytesOut": Int64(counted.bytes_out),
        "physicalBytesIn": Int64(counted.bytes_in),
        "physicalBytesOut": Int64(counted.bytes_out),
        "numRequests": Int64(counted.requests),
    }


def opcounters(node: "Node") -> dict[str, Any]:
    return {name: Int64(number) for name, number in asdict(node.counters.operations).items()}


def operation_latencies(node: "Node") -> dict[str, Any]:
    return node.usage.all.latencies()


def opcounters_repl(_node: "Node") -> dict[str, Any]:
    """Operations that a secondary has copied: none, because members share one store."""
    return {name: Int64(0) for name in ("insert", "query", "update", "delete", "getmore", "command")}


def default_concerns(node: "Node") -> dict[str, Any]:
    shown = node.default_concerns.describe(node.wall.milliseconds())
    return {name: value for name, value in shown.items() if name != "inMemory"}


def feature_compatibility(node: "Node") -> dict[str, Any]:
    return {"major": node.release.number[0], "minor": node.release.number[1], "transitioning": 0}


def replication(node: "Member") -> dict[str, Any] | None:
    """The member's state and position; nothing on a standalone server."""
    state = node.replication
    if not state.is_replica_set:
        return None
    shown: dict[str, Any] = {
        "topologyVersion": state.topology_version(),
        "hosts": [member.address for member in node.members],
        "setName": state.set_name,
        "setVersion": 1,
        "isWritablePrimary": state.is_primary,
        "secondary": not state.is_primary,
    }
    if node.primary is not None:
        shown["primary"] = node.primary.address
    if state.is_primary:
        shown["electionId"] = state.election_id()
    position = {"ts": to_timestamp(node.last_write_time()), "t": Int64(state.term)}
    date = DatetimeMS(node.last_write_date())
    return shown | {
        "me": node.address,
        "lastWrite": {
            "opTime": position,
            "lastWriteDate": date,
            "majorityOpTime": position,
            "majorityWriteDate": date,
        },
        "rbid": 1,
    }


def oplog(node: "Member") -> dict[str, Any] | None:
    if not node.replication.is_replica_set or node.source_status() is not None:
        return None
    return {
        "earliestOptime": to_timestamp(node.store.oldest),
        "latestOptime": to_timestamp(node.last_write_time()),
    }


def storage_engine(node: "Node") -> dict[str, Any]:
    return {
        "name": "lmdb",
        "supportsCommittedReads": True,
        "supportsPendingDrops": False,
        "supportsSnapshotReadConcern": True,
        "readOnly": False,
        "persistent": node.options.data is not None,
        "backupCursorOpen": False,
    }


def transactions(node: "Node") -> dict[str, Any]:
    counted = node.counters.transactions
    open_now = [s for s in node.sessions if s.transaction is not None and s.transaction.is_open]
    active = {context.lsid for context in node.operations.values() if context.in_transaction}
    number_active = sum(session.lsid in active for session in open_now)
    return {
        "currentActive": Int64(number_active),
        "currentInactive": Int64(len(open_now) - number_active),
        "currentOpen": Int64(len(open_now)),
        "totalAborted": Int64(counted.aborted),
        "totalCommitted": Int64(counted.committed),
        "totalStarted": Int64(counted.started),
        "totalPrepared": Int64(counted.prepared),
        "currentPrepared": Int64(node.transactions.prepared_count),
    }


def memory(_node: "Node") -> dict[str, Any]:
    return {
        "bits": 64,
        "resident": process_info.resident_megabytes(),
        "virtual": process_info.virtual_megabytes(),
        "supported": True,
    }


def metrics(node: "Node") -> dict[str, Any]:
    counted = node.counters
    commands = {
        name: {"failed": Int64(counts.failed), "total": Int64(counts.total)}
        for name, counts in sorted(counted.commands.items())
    }
    return {
        "changeStreams": change_streams(node),
        "commands": {"<UNKNOWN>": Int64(counted.unknown_commands), **commands},
        "cursor": node.cursors.statistics(),
        "ttl": {
            "deletedDocuments": Int64(counted.expiry.ttl_deleted),
            "passes": Int64(counted.expiry.ttl_passes),
        },
    }


def change_streams(node: "Node") -> dict[str, Any]:
    counted = node.counters.change_streams
    return {
        "largeEventsFailed": Int64(counted.large_events_failed),
        "largeEventsSplit": Int64(counted.large_events_split),
        "showExpandedEvents": Int64(counted.show_expanded_events),
        "opened": Int64(counted.opened),
        "resumed": Int64(counted.resumed),
        "failed": Int64(counted.failed),
        "closed": Int64(counted.closed),
        "open": Int64(counted.open),
        "events": Int64(counted.events),
        "option": {name: Int64(number) for name, number in sorted(counted.options.items())},
        "scope": {name: Int64(number) for name, number in counted.scopes.items()},
    }


def pre_images(node: "Node") -> dict[str, Any]:
    counted = node.counters.expiry
    return {
        "purgingJob": {
            "totalPass": Int64(counted.image_passes),
            "docsDeleted": Int64(counted.images_removed),
            "bytesDeleted": Int64(counted.image_bytes_removed),
        }
    }


def history(node: "Node") -> dict[str, Any] | None:
    return None if node.history is None else node.history.status()


def pipeline(node: "Node") -> dict[str, Any] | None:
    return node.pipeline_status()


def source(node: "Node") -> dict[str, Any] | None:
    return node.source_status()


SECTIONS: Final[Mapping[str, Section]] = {
    "asserts": asserts,
    "changeStreamPreImages": pre_images,
    "connections": connections,
    "defaultRWConcern": default_concerns,
    "extra_info": extra_info,
    "featureCompatibilityVersion": feature_compatibility,
    "globalLock": global_lock,
    "history": history,
    "logicalSessionRecordCache": logical_sessions,
    "network": network,
    "opLatencies": operation_latencies,
    "opcounters": opcounters,
    "opcountersRepl": opcounters_repl,
    "oplog": oplog,
    "pipeline": pipeline,
    "repl": replication,
    "source": source,
    "storageEngine": storage_engine,
    "transactions": transactions,
    "mem": memory,
    "metrics": metrics,
}
"""Every section that a client can leave out, or request if it is left out by default."""

ON_REQUEST: Final = frozenset({"oplog"})
"""Sections that are shown only on request."""

OF_MEMBERS: Final = frozenset(
    {"changeStreamPreImages", "featureCompatibilityVersion", "opcountersRepl", "oplog", "pipeline", "repl",
     "source", "storageEngine"}
)  # fmt: skip
"""Sections that a router does not have, or has in another form."""


def describe(node: "Node", sections: Mapping[str, Section], command: Mapping[str, Any]) -> dict[str, Any]:
    """The sections that a client wants: a field that names one leaves it out with 0, requests it with 1."""
    by_default = not command.get("none")
    wanted = {
        name: section(node)
        for name, section in sections.items()
        if command.get(name, by_default and name not in ON_REQUEST)
    }
    return {name: shown for name, shown in wanted.items() if shown is not None}
