"""The sections of serverStatus, each a function of the server."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from bson import DatetimeMS, Int64

from tailrace.events.cluster_time import to_timestamp
from tailrace.mongod.server.admin import process_info

if TYPE_CHECKING:
    from tailrace.mongod.server.server import Server

_MICROSECONDS: Final = 1_000_000


def head(server: "Server") -> dict[str, Any]:
    """What every serverStatus begins with; it cannot be left out."""
    uptime = time.monotonic() - server.started
    return {
        "host": server.member,
        "version": server.release.version,
        "process": "tailrace",
        "pid": Int64(os.getpid()),
        "uptime": float(int(uptime)),
        "uptimeMillis": Int64(int(uptime * 1000)),
        "uptimeEstimate": Int64(int(uptime)),
        "localTime": DatetimeMS(server.wall.milliseconds()),
    }


def asserts(_server: "Server") -> dict[str, Any]:
    """Kept because monitoring tools read it; this server counts failures by command instead."""
    return {"regular": 0, "warning": 0, "msg": 0, "user": 0, "tripwire": 0, "rollovers": 0}


def connections(server: "Server") -> dict[str, Any]:
    """Connections now and so far."""
    open_now = len(server.listener.connections)
    hellos = [context for context in server.operations.values() if context.entry.name == "hello"]
    streaming = [context for context in hellos if "topologyVersion" in context.command]
    return {
        "current": open_now,
        "available": server.options.max_connections - open_now,
        "totalCreated": Int64(server.counters.connections_created),
        "rejected": server.counters.connections_rejected,
        "active": len({context.client.id for context in server.operations.values()}),
        "exhaustHello": sum(context.exhaust_allowed for context in streaming),
        "awaitingTopologyChanges": len(streaming),
    }


def extra_info(_server: "Server") -> dict[str, Any]:
    """Processor time of the process."""
    user, system = process_info.processor_seconds()
    return {
        "note": "fields vary by platform",
        "user_time_us": Int64(int(user * _MICROSECONDS)),
        "system_time_us": Int64(int(system * _MICROSECONDS)),
    }


def global_lock(server: "Server") -> dict[str, Any]:
    """Nobody waits for a lock; operations under way count as active."""
    contexts = list(server.operations.values())
    writers = sum(context.entry.is_write for context in contexts)
    readers = len(contexts) - writers
    return {
        "totalTime": Int64(int((time.monotonic() - server.started) * _MICROSECONDS)),
        "currentQueue": {"total": 0, "readers": 0, "writers": 0},
        "activeClients": {"total": len(contexts), "readers": readers, "writers": writers},
    }


def logical_sessions(server: "Server") -> dict[str, Any]:
    """The sessions that are known."""
    return {"activeSessionsCount": len(server.sessions), "sessionCatalogSize": len(server.sessions)}


def network(server: "Server") -> dict[str, Any]:
    """Bytes and requests on all connections."""
    counted = server.counters.network
    return {
        "bytesIn": Int64(counted.bytes_in),
        "bytesOut": Int64(counted.bytes_out),
        "physicalBytesIn": Int64(counted.bytes_in),
        "physicalBytesOut": Int64(counted.bytes_out),
        "numRequests": Int64(counted.requests),
    }


def opcounters(server: "Server") -> dict[str, Any]:
    """Operations by kind."""
    return {name: Int64(number) for name, number in asdict(server.counters.operations).items()}


def replication(server: "Server") -> dict[str, Any] | None:
    """The member's state and position; nothing on a standalone server."""
    state = server.replication
    if not state.is_replica_set:
        return None
    shown: dict[str, Any] = {
        "topologyVersion": state.topology_version(),
        "hosts": [member.member for member in server.members],
        "setName": state.set_name,
        "setVersion": 1,
        "isWritablePrimary": state.is_primary,
        "secondary": not state.is_primary,
    }
    if server.primary is not None:
        shown["primary"] = server.primary.member
    if state.is_primary:
        shown["electionId"] = state.election_id()
    position = {"ts": to_timestamp(server.last_write_time()), "t": Int64(state.term)}
    date = DatetimeMS(server.last_write_date())
    return shown | {
        "me": server.member,
        "lastWrite": {
            "opTime": position,
            "lastWriteDate": date,
            "majorityOpTime": position,
            "majorityWriteDate": date,
        },
    }


def oplog(server: "Server") -> dict[str, Any] | None:
    """Where the oplog begins and ends."""
    if not server.replication.is_replica_set:
        return None
    return {
        "earliestOptime": to_timestamp(server.store.oldest),
        "latestOptime": to_timestamp(server.last_write_time()),
    }


def storage_engine(server: "Server") -> dict[str, Any]:
    """What keeps the data."""
    return {
        "name": "lmdb",
        "supportsCommittedReads": True,
        "supportsPendingDrops": False,
        "supportsSnapshotReadConcern": True,
        "readOnly": False,
        "persistent": server.options.data is not None,
        "backupCursorOpen": False,
    }


def transactions(server: "Server") -> dict[str, Any]:
    """Transactions by their end, and those that are open."""
    counted = server.counters.transactions
    open_now = [s for s in server.sessions if s.transaction is not None and s.transaction.is_open]
    active = {context.lsid for context in server.operations.values() if context.in_transaction}
    number_active = sum(session.lsid in active for session in open_now)
    return {
        "currentActive": Int64(number_active),
        "currentInactive": Int64(len(open_now) - number_active),
        "currentOpen": Int64(len(open_now)),
        "currentPrepared": Int64(0 if server.is_router else len(server.store.prepared)),
        "totalAborted": Int64(counted.aborted),
        "totalCommitted": Int64(counted.committed),
        "totalPrepared": Int64(counted.prepared),
        "totalStarted": Int64(counted.started),
    }


def memory(_server: "Server") -> dict[str, Any]:
    """Memory in megabytes."""
    return {
        "bits": 64,
        "resident": process_info.resident_megabytes(),
        "virtual": process_info.virtual_megabytes(),
        "supported": True,
    }


def metrics(server: "Server") -> dict[str, Any]:
    """Commands, cursors, change streams."""
    counted = server.counters
    commands = {
        name: {"failed": Int64(counts.failed), "total": Int64(counts.total)}
        for name, counts in sorted(counted.commands.items())
    }
    return {
        "changeStreams": change_streams(server),
        "commands": {"<UNKNOWN>": Int64(counted.unknown_commands), **commands},
        "cursor": server.cursors.statistics(),
        "ttl": server.expiry.ttl_status(),
    }


def change_streams(server: "Server") -> dict[str, Any]:
    """Streams opened, by option and scope, and what became of large events."""
    counted = server.counters.change_streams
    return {
        "largeEventsFailed": Int64(counted.large_events_failed),
        "largeEventsSplit": Int64(counted.large_events_split),
        "showExpandedEvents": Int64(counted.show_expanded_events),
        "opened": Int64(counted.opened),
        "resumed": Int64(counted.resumed),
        "failed": Int64(counted.failed),
        "closed": Int64(counted.closed),
        "open": Int64(counted.open),
        "option": {name: Int64(number) for name, number in sorted(counted.options.items())},
        "scope": {name: Int64(number) for name, number in counted.scopes.items()},
    }


def pre_images(server: "Server") -> dict[str, Any]:
    """Pre-images that expired."""
    return server.expiry.image_status()


def history(server: "Server") -> dict[str, Any] | None:
    """The history that streams are served from; nothing on a server without one."""
    return None if server.history is None else server.history.status()


def pipeline(server: "Server") -> dict[str, Any] | None:
    """What builds the history, as far as this server runs it."""
    status = server.members[0].pipeline_status  # there is one for the set
    return None if status is None else status()


SECTIONS: Final[Mapping[str, Callable[["Server"], dict[str, Any] | None]]] = {
    "asserts": asserts,
    "changeStreamPreImages": pre_images,
    "connections": connections,
    "extra_info": extra_info,
    "globalLock": global_lock,
    "history": history,
    "logicalSessionRecordCache": logical_sessions,
    "network": network,
    "opcounters": opcounters,
    "oplog": oplog,
    "pipeline": pipeline,
    "repl": replication,
    "storageEngine": storage_engine,
    "transactions": transactions,
    "mem": memory,
    "metrics": metrics,
}
"""Every section that a client can leave out, or ask for if it is left out by default."""

ON_REQUEST: Final = frozenset({"oplog"})
"""Sections that are shown only if they are asked for."""
