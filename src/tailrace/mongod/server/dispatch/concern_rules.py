"""Which read and write concerns a command may have, inside and outside of transactions.

Seen on MongoDB 6.0.27, which was sent every command with every level.
"""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.concerns import READ_CONCERN_LEVELS
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.transaction_rules import check_databases
from tailrace.mongod.store.catalog import SESSIONS_NS

_LOCAL: Final = frozenset({"local"})
_EVERY: Final = frozenset(READ_CONCERN_LEVELS)
_LEVELS: Final[Mapping[str, frozenset[str]]] = {
    "find": _EVERY,
    "aggregate": _EVERY,
    "distinct": _EVERY,
    "getMore": _EVERY,
    "count": _EVERY - {"snapshot"},
    "dbHash": frozenset({"local", "snapshot"}),
    "abortTransaction": frozenset({"local", "majority", "snapshot"}),
}
"""The levels of commands that take others than `local`"""
_IN_TRANSACTIONS: Final = frozenset({"local", "majority", "snapshot"})
_LOCAL_IN_TRANSACTIONS: Final = frozenset({"create", "createIndexes"})
_WITHOUT_TIME: Final = frozenset({"getMore", "validate", "ping", "currentOp", "serverStatus", "dbHash"})
"""Commands that cannot wait for a cluster time"""
_WITHOUT_WRITE_CONCERN: Final = frozenset({"setClusterParameter"})
_NEVER_FIRST: Final = frozenset(
    {
        "killCursors",
        "prepareTransaction",
        "commitTransaction",
        "abortTransaction",
        "coordinateCommitTransaction",
    }
)
_LOCAL_SOURCES: Final = frozenset({"$currentOp", "$listLocalSessions", "$planCacheStats"})
"""Stages that read the state of this node, which has no versions"""
_NO_SNAPSHOT_OF_SESSIONS: Final = 5557800
_WRITING_STAGES: Final = frozenset({"$out", "$merge"})


def check_runs_in_transaction(context: Context) -> None:
    """Refuse (263) a command that cannot run in a transaction; this comes before anything about concerns."""
    if not context.in_transaction:
        return
    entry = context.entry
    if not (entry.in_transaction or entry.ends_transaction):
        raise _refused(f"Cannot run '{entry.name}' in a multi-document transaction.")
    if context.starts_transaction and entry.name in _NEVER_FIRST:
        raise _refused(f"Cannot run {entry.name} as the first operation in a multi-document transaction.")
    check_databases(context)


def takes_write_concern(entry: Command) -> bool:
    """Whether a command may have a write concern."""
    if entry.name == "aggregate":  # because of `$out` and `$merge`
        return True
    return entry.is_write and entry.name not in _WITHOUT_WRITE_CONCERN


def check_concerns(context: Context) -> None:
    """Refuse a concern that the command does not take."""
    if context.in_transaction:
        _check_in_transaction(context)
        return
    concern, entry = context.read_concern, context.entry
    if concern.is_empty:
        return
    if concern.level is not None and concern.level not in _levels(context):
        raise _unsupported(context)
    is_causal = concern.level == "majority" and concern.after_cluster_time is not None
    if (is_causal or concern.level == "snapshot") and context.namespace == SESSIONS_NS:
        raise CommandError(
            _NO_SNAPSHOT_OF_SESSIONS,
            "Snapshot reads and causal consistent majority reads on config.transactions are not supported",
        )
    if concern.after_cluster_time is not None and entry.name in _WITHOUT_TIME:
        raise _invalid("afterClusterTime is not allowed for this command")


def _levels(context: Context) -> frozenset[str]:
    name = context.entry.name
    found = _LEVELS.get(name, _LOCAL)
    if name != "aggregate":
        return found
    pipeline = context.command.get("pipeline")
    stages = [stage for stage in pipeline if isinstance(stage, dict)] if isinstance(pipeline, list) else []
    if stages and not _LOCAL_SOURCES.isdisjoint(stages[0]):
        return _LOCAL
    if stages and not _WRITING_STAGES.isdisjoint(stages[-1]):
        return found - {"linearizable"}
    return found


def _check_in_transaction(context: Context) -> None:
    concern, entry = context.read_concern, context.entry
    if not concern.is_empty and not context.starts_transaction:
        raise _invalid(
            "Only the first command in a transaction may specify a readConcern "
            "(including an empty one and afterClusterTime)"
        )
    if context.write_concern is not None and not entry.ends_transaction:
        raise _invalid("writeConcern is not allowed within a multi-statement transaction")
    if "afterOpTime" in context.command.get("readConcern", ()):
        raise _invalid("The readConcern cannot specify 'afterOpTime' in a transaction")
    level = concern.level
    if level is None and context.starts_transaction and entry.is_read:
        level = context.node.default_concerns.read_level
    allowed = _LOCAL if entry.name in _LOCAL_IN_TRANSACTIONS else _IN_TRANSACTIONS
    if level is not None and level not in allowed:
        raise _invalid(
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to "
            "run in a transaction"
        )
    if concern.after_cluster_time is not None and entry.name in _WITHOUT_TIME:
        raise _invalid("afterClusterTime is not allowed for this command")


def _unsupported(context: Context) -> CommandError:
    shown: dict[str, Any] = {**context.command["readConcern"], "provenance": "clientSupplied"}
    return _invalid(
        f"Command {context.entry.name} does not support {{ readConcern: {shown} }} "
        ":: caused by :: read concern not supported"
    )


def _invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)


def _refused(reason: str) -> CommandError:
    return CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
