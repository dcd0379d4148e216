"""Read the arguments that every command may have into its context; refuse invalid combinations."""

import time
from functools import lru_cache
from typing import Any, Final

from bson import Timestamp

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.api_versions import check_api_version
from tailrace.mongod.server.dispatch.concerns import ReadConcern, WriteConcern, read_preference
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.sessions.sessions import parse_session_id

MAX_DATABASE_NAME_BYTES: Final = 63
_FORBIDDEN_IN_DATABASE: Final = frozenset('/\\. "$\0')
_MAX_TIME_MS: Final = 2**31 - 1
_CHANGE_STREAM: Final = "$changeStream"


@lru_cache(maxsize=1024)
def check_database_name(name: str) -> None:
    fits = 0 < len(name.encode()) <= MAX_DATABASE_NAME_BYTES
    if not fits or not _FORBIDDEN_IN_DATABASE.isdisjoint(name):
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid database name: '{name}'")


def read_generic_arguments(context: Context) -> None:
    """Set the attributes of a context from the generic arguments of its command."""
    command = context.command
    check_database_name(context.database)
    if context.node.is_router and context.database == "local":
        raise CommandError(
            ErrorCode.IllegalOperation, "a router has no database local; each shard has its own"
        )
    check_api_version(command, context.entry.name)
    if "$readPreference" in command:
        context.read_preference = read_preference(command["$readPreference"])
    if "readConcern" in command:
        context.read_concern = ReadConcern.parse(command["readConcern"])
    if "writeConcern" in command:
        context.write_concern = WriteConcern.parse(command["writeConcern"])
    _read_max_time(context)
    _read_session(context)
    _check_concerns(context)
    context.is_change_stream = _is_change_stream(context)


def cluster_time(command: dict[str, Any]) -> int | None:
    """The cluster time that a client sends in `$clusterTime`."""
    gossip = command.get("$clusterTime")
    if gossip is None:
        return None
    if not isinstance(gossip, dict):
        reason = f"BSON field '$clusterTime' is the wrong type '{type_name(gossip)}', expected type 'object'"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    heard = gossip.get("clusterTime")
    if heard is None:
        reason = "BSON field '$clusterTime.clusterTime' is missing but a required field"
        raise CommandError(ErrorCode.IDLFailedToParse, reason)
    if not isinstance(heard, Timestamp):
        reason = (
            f"BSON field '$clusterTime.clusterTime' is the wrong type '{type_name(heard)}', "
            "expected type 'timestamp'"
        )
        raise CommandError(ErrorCode.TypeMismatch, reason)
    return heard.time << 32 | heard.inc


def _read_max_time(context: Context) -> None:
    value = context.command.get("maxTimeMS")
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        reason = f"maxTimeMS must be a number, not {type_name(value)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    if not 0 <= value <= _MAX_TIME_MS:
        reason = f"{value} value for maxTimeMS is out of range [0, {_MAX_TIME_MS}]"
        raise CommandError(ErrorCode.BadValue, reason)
    if value != int(value):
        raise CommandError(ErrorCode.BadValue, "maxTimeMS has non-integral value")
    if value and not context.entry.max_time_is_wait:
        context.deadline = time.monotonic() + value / 1000


def _read_session(context: Context) -> None:
    command = context.command
    if "lsid" in command:
        context.lsid = parse_session_id(command["lsid"])
    number = command.get("txnNumber")
    autocommit = command.get("autocommit")
    start = command.get("startTransaction")
    if number is None:
        if autocommit is not None:
            raise _invalid("'autocommit' field requires a transaction number to also be specified")
        if start is not None:
            raise _invalid("'startTransaction' field requires a transaction number to also be specified")
        return
    if isinstance(number, bool) or not isinstance(number, int):
        reason = (
            f"BSON field 'OperationSessionInfo.txnNumber' is the wrong type '{type_name(number)}', "
            "expected type 'long'"
        )
        raise CommandError(ErrorCode.TypeMismatch, reason)
    if context.lsid is None:
        raise _invalid("Transaction number requires a session ID to also be specified")
    if number < 0:
        raise _invalid("Transaction number cannot be negative")
    for name, value in (("autocommit", autocommit), ("startTransaction", start)):
        if value is not None and not isinstance(value, bool):
            reason = (
                f"BSON field 'OperationSessionInfo.{name}' is the wrong type '{type_name(value)}', "
                "expected type 'bool'"
            )
            raise CommandError(ErrorCode.TypeMismatch, reason)
    if autocommit:
        raise _invalid("Specifying autocommit=true is not allowed.")
    if start is not None and autocommit is None:
        raise _invalid("'startTransaction' field requires 'autocommit' field to also be specified")
    if start is False:
        raise _invalid("Specifying startTransaction=false is not allowed.")
    context.txn_number = int(number)
    context.in_transaction = autocommit is False
    context.starts_transaction = bool(start)


def _check_concerns(context: Context) -> None:
    entry = context.entry
    if context.in_transaction:
        if "readConcern" in context.command and not context.starts_transaction:
            raise _invalid(
                "Only the first command in a transaction may specify a readConcern "
                "(including an empty one and afterClusterTime)"
            )
        if context.write_concern is not None and not entry.ends_transaction:
            raise _invalid("writeConcern is not allowed within a multi-statement transaction")
        level = context.read_concern.level
        if level not in (None, "local", "majority", "snapshot"):
            raise _invalid(f"a transaction reads with local, majority or snapshot, not with {level}")
        return
    level = context.read_concern.level
    if level not in (None, "local") and not entry.is_read:
        raise _invalid(f'Command {entry.name} does not support {{ readConcern: {{ level: "{level}" }} }}')
    if context.write_concern is not None and not (entry.is_write or entry.name in _WRITING_READS):
        raise _invalid("Command does not support writeConcern")


_WRITING_READS: Final = frozenset({"aggregate", "getMore", "explain"})
"""Reads that can write, by `$out` and `$merge`; and getMore, because drivers send a write concern with it."""


def _is_change_stream(context: Context) -> bool:
    """Whether the command opens a stream; for a getMore it is known only after its cursor was found."""
    if context.entry.name != "aggregate":
        return False
    pipeline = context.command.get("pipeline")
    return isinstance(pipeline, list) and any(
        isinstance(stage, dict) and _CHANGE_STREAM in stage for stage in pipeline
    )


def _invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)
