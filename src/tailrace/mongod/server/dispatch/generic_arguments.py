"""Read the arguments that every command may have into its context; refuse invalid combinations."""

import time
from functools import lru_cache
from typing import Any, Final

from bson import Decimal128

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.passwords import EXTERNAL
from tailrace.mongod.server.dispatch.api_versions import REQUIRED, check_has_api_version
from tailrace.mongod.server.dispatch.concern_rules import (
    check_concerns,
    check_runs_in_transaction,
    takes_write_concern,
)
from tailrace.mongod.server.dispatch.concerns import ReadConcern, WriteConcern
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.kinds import as_number, as_whole, is_given
from tailrace.mongod.server.dispatch.metadata import (
    check_operation_key,
    check_origin,
    check_session_fields,
    check_versions,
    cluster_time,
    read_preference,
)
from tailrace.mongod.server.sessions.session_ids import session_id

MAX_DATABASE_NAME_BYTES: Final = 63
_ON_ANY_DATABASE: Final = frozenset(
    {"aggregate", "drop", "dropDatabase", "explain", "getMore", "killCursors", "listCollections", "ping"}
)
"""Commands on databases whose names have a dollar sign; other commands refuse them, so they are empty."""
_ON_EXTERNAL: Final = frozenset(
    {
        "authenticate", "createRole", "createUser", "dropAllUsersFromDatabase", "dropUser",
        "grantRolesToUser", "logout", "revokeRolesFromUser", "saslContinue", "saslStart", "updateUser",
        "usersInfo",
    }
)  # fmt: skip
"""Commands on the database of users whose passwords are stored elsewhere."""
_FORBIDDEN_IN_DATABASE: Final = frozenset('/\\. "$\0')
_MAX_TIME_MS: Final = 2**31 - 1
_CHANGE_STREAM: Final = "$changeStream"


@lru_cache(maxsize=1024)
def check_database_name(name: str, *, may_have_dollar: bool = False) -> None:
    fits = 0 < len(name.encode()) <= MAX_DATABASE_NAME_BYTES
    checked = name.replace("$", "") if may_have_dollar else name
    if not fits or not _FORBIDDEN_IN_DATABASE.isdisjoint(checked):
        raise CommandError(ErrorCode.InvalidNamespace, f"Invalid database name: '{name}'")


def check_database(context: Context) -> None:
    """Refuse a database that the command cannot run on."""
    if context.database != EXTERNAL or context.entry.name not in _ON_EXTERNAL:
        check_database_name(context.database, may_have_dollar=context.entry.name in _ON_ANY_DATABASE)
    if context.node.is_router and context.database == "local":
        raise CommandError(
            ErrorCode.IllegalOperation, "a router has no database local; each shard has its own"
        )


def read_metadata(context: Context) -> None:
    """Read what comes with a request beside its command."""
    command, release = context.command, context.node.release
    check_operation_key(command, release)
    if "$readPreference" in command:
        context.read_preference = read_preference(command["$readPreference"], release)
    check_origin(command, release)
    context.heard_time = cluster_time(command)
    check_session_fields(command, release)
    _read_session(context)
    check_database(context)


def read_generic_arguments(context: Context) -> None:
    """Set the attributes of a context from the generic arguments of its command."""
    command = context.command
    if context.parameters[REQUIRED]:
        check_has_api_version(command)
    check_runs_in_transaction(context)
    if "maxTimeMSOpOnly" in command:
        raise _invalid("Can not specify maxTimeMSOpOnly for non internal clients")
    _read_max_time(context)
    if "readConcern" in command:
        context.read_concern = ReadConcern.parse(command["readConcern"])
    check_versions(command)
    if "writeConcern" in command:
        if not takes_write_concern(context.entry):
            raise _invalid("Command does not support writeConcern")
        context.write_concern = WriteConcern.parse(command["writeConcern"])
    check_concerns(context)
    context.is_change_stream = _is_change_stream(context)


def _read_max_time(context: Context) -> None:
    if "maxTimeMS" not in context.command:
        return
    value = context.command["maxTimeMS"]
    number = as_number(value)
    if number is None:
        raise CommandError(ErrorCode.BadValue, f"maxTimeMS must be a number, not {type_name(value)}")
    whole = as_whole(value)
    assert whole is not None
    if not 0 <= whole <= _MAX_TIME_MS:
        reason = f"{value} value for maxTimeMS is out of range [0, {_MAX_TIME_MS}]"
        raise CommandError(ErrorCode.BadValue, reason)
    if number != whole and not isinstance(value, Decimal128):  # decimals are rounded
        raise CommandError(ErrorCode.BadValue, "maxTimeMS has non-integral value")
    if whole and not context.entry.max_time_is_wait:
        context.deadline = time.monotonic() + whole / 1000


def _read_session(context: Context) -> None:
    command = context.command
    autocommit, start = command.get("autocommit"), command.get("startTransaction")
    number: Any = command.get("txnNumber")
    if is_given(command.get("lsid")):
        context.lsid = session_id(context, command["lsid"])
        if context.client.guard is not None and context.node.is_router:
            command["lsid"] = decode(context.lsid)  # with the user, for the shards
    if context.entry.has_no_session:
        # Commands that need no authentication belong to no session.
        context.lsid = None
        if is_given(autocommit):
            reason = f"It is illegal to run command {context.name} in a multi-document transaction."
            raise CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
        if is_given(number):
            raise CommandError(50889, f"It is illegal to provide a txnNumber for command {context.name}")
        if is_given(start):
            raise _invalid("'startTransaction' field requires 'autocommit' field to also be specified")
        return
    if not is_given(number):
        if is_given(autocommit):
            raise _invalid("'autocommit' field requires a transaction number to also be specified")
        if is_given(start):
            raise _invalid("'startTransaction' field requires a transaction number to also be specified")
        return
    if context.lsid is None:
        raise _invalid("Transaction number requires a session ID to also be specified")
    if number < 0:
        raise _invalid("Transaction number cannot be negative")
    if autocommit is True:
        raise _invalid("Specifying autocommit=true is not allowed.")
    if is_given(start) and not is_given(autocommit):
        raise _invalid("'startTransaction' field requires 'autocommit' field to also be specified")
    if start is False:
        raise _invalid("Specifying startTransaction=false is not allowed.")
    if context.entry.ignores_transactions:
        return
    context.txn_number = int(number)
    context.in_transaction = autocommit is False
    context.starts_transaction = start is True


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
