"""Refuse commands that cannot be part of a multi-document transaction."""

from typing import Any, Final

from tailrace.bson import documents
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import in_words
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.store.transactions.prepared import Prepared

_REFUSED_DATABASES: Final = ("config", "local")
_ON_PREPARED: Final = frozenset(
    {"prepareTransaction", "commitTransaction", "abortTransaction", "coordinateCommitTransaction"}
)
_ON_COMMITTED: Final = frozenset({"commitTransaction", "coordinateCommitTransaction"})
_NOT_READ: Final = frozenset(
    {
        ErrorCode.IDLFailedToParse,
        ErrorCode.IDLUnknownField,
        40323,  # a stage with several names
        40324,  # a stage with an unknown name
    }
)
_READ_FIRST: Final = frozenset({"insert", "update", "delete", "aggregate"})
"""Commands that a server reads as a whole before it enters the transaction"""
_REFUSED_STAGES: Final = frozenset(
    {
        "$changeStream", "$collStats", "$currentOp", "$indexStats", "$listLocalSessions", "$listSessions",
        "$merge", "$out", "$planCacheStats",
    }
)  # fmt: skip


def check_databases(context: Context) -> None:
    """Refuse (263) a statement on a database that transactions cannot use; the transaction stays open."""
    name = context.entry.name
    if name in _ON_PREPARED or name == "getMore":  # its cursor was opened by a statement that was allowed
        return
    for database in {ns.partition(".")[0] for ns in namespaces_of(context)}:
        if database in _REFUSED_DATABASES:
            raise _refused(f"Cannot run command against the '{database}' database in a transaction.")


def check_stages(context: Context) -> None:
    """Refuse (263) a pipeline with stages that cannot run in a transaction; this ends the transaction."""
    pipeline = context.command.get("pipeline") if context.entry.name == "aggregate" else None
    for stage in pipeline if isinstance(pipeline, list) else ():
        for operator in stage if isinstance(stage, dict) else ():
            if operator in _REFUSED_STAGES:
                raise _refused(
                    "Operation not permitted in transaction :: caused by :: Aggregation stage "
                    f"{operator} cannot run within a multi-document transaction"
                )


def ends_transaction(context: Context, error: BaseException) -> bool:
    """Whether a failure ends the transaction; a command that could not be read has not begun in it."""
    name = context.entry.name
    if not isinstance(error, CommandError) or name not in _READ_FIRST:
        return True
    is_read = context.has_read_statements or name == "aggregate"
    return is_read and error.code not in _NOT_READ


def check_not_prepared(context: Context) -> None:
    """Refuse (267) a statement of a transaction that is prepared."""
    if context.entry.name not in _ON_PREPARED:
        raise CommandError(
            ErrorCode.PreparedTransactionInProgress,
            f"Cannot run {context.entry.name} in transaction {context.txn_number}: it is prepared, and can "
            "only be committed or aborted.",
        )


def check_not_committed(context: Context) -> None:
    """Refuse (256) what cannot be done with a transaction that is committed."""
    if context.entry.name not in _ON_COMMITTED:
        raise CommandError(
            ErrorCode.TransactionCommitted, f"Transaction {context.txn_number} has been committed."
        )


def check_commit_time(commit_time: int | None, prepared: Prepared | None) -> None:
    """Refuse (72) a commit time that is missing, superfluous or too early."""
    if prepared is None:
        if commit_time is not None:
            raise _invalid("commitTimestamp is only for transactions that are prepared")
    elif not commit_time:
        raise _invalid("a prepared transaction is committed with a commitTimestamp, which is not null")
    elif commit_time < prepared.time.ts:
        raise _invalid(
            f"commitTimestamp {in_words(commit_time)} is before the transaction was prepared, at "
            f"{in_words(prepared.time.ts)}"
        )


def namespaces_of(context: Context) -> list[str]:
    """The namespaces that a command uses; bulkWrite runs on `admin` and names them itself.

    For a command that names no collection it is the database.
    """
    if context.entry.name != "bulkWrite":
        return [context.namespace or context.database]
    spaces = context.request.sequences.get("nsInfo") or ()
    named: Any = [documents.decode(raw) for raw in spaces] or context.command.get("nsInfo")
    return [
        space["ns"]
        for space in (named if isinstance(named, list) else ())
        if isinstance(space, dict) and isinstance(space.get("ns"), str)
    ]


def _invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)


def _refused(reason: str) -> CommandError:
    return CommandError(ErrorCode.OperationNotSupportedInTransaction, reason)
