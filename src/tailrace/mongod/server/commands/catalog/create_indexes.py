"""`createIndexes`: create indexes, and the collection if necessary."""

from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes

_QUORUMS: Final = ("votingMembers", "majority")


async def run(context: MemberContext) -> dict[str, Any]:
    """Create indexes, except those that exist."""
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    arguments.ignore("indexes", "indexUUID", "rawData")
    specs = [decode(raw) for raw in context.documents("indexes")]
    ignore_unknown = arguments.boolean("ignoreUnknownIndexOptions", False)
    quorum = _commit_quorum(arguments)
    arguments.finish()
    if not specs:
        raise CommandError(ErrorCode.BadValue, "Must specify at least one index to create")
    created = await run_write(
        context, lambda unit: create_indexes(unit, database, name, specs, ignore_unknown=ignore_unknown)
    )
    if created.failure is not None:
        raise _with_place(created.failure, database, name)
    reply: dict[str, Any] = {
        "numIndexesBefore": created.before,
        "numIndexesAfter": created.after,
        "createdCollectionAutomatically": created.created_collection,
    }
    if created.before == created.after:
        reply["note"] = "all indexes already exist"
    else:
        reply["commitQuorum"] = quorum
    return reply


def _commit_quorum(arguments: Arguments) -> Any:
    value = arguments.value("commitQuorum", "votingMembers")
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"commitQuorum has to be a string or a number, but found: {type_name(value)}",
        )
    if isinstance(value, str) and value not in _QUORUMS:
        raise CommandError(
            ErrorCode.UnknownReplWriteConcern, f"No write concern mode named '{value}' found in replica set"
        )
    if not isinstance(value, str) and not 0 <= value <= 1:
        raise CommandError(
            ErrorCode.UnsatisfiableWriteConcern,
            "Commit quorum cannot be satisfied with the current replica set configuration",
        )
    return value


def _with_place(error: CommandError, database: str, name: str) -> CommandError:
    failed = CommandError(error.code, f"Index build failed: {database}.{name}: {error.message}")
    failed.details = error.details
    return failed


COMMAND = Command(
    "createIndexes",
    run,
    help="Create indexes, and the collection if necessary.",
    is_write=True,
    in_transaction=True,
)
