"""`createIndexes`: create indexes, and the collection if necessary."""

from functools import partial
from typing import Any, Final

from tailrace.bson.compare import type_name
from tailrace.bson.documents import decode
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import LATER, command
from tailrace.mongod.server.dispatch.kinds import ANY, COLLECTION, FLAG, LOOSE_FLAG, OBJECT, UUID, array_of
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.ddl.create_and_drop_indexes import create_indexes
from tailrace.mongod.store.indexes.index_build import BuildScan, abort_scanned, add_keys, end_build
from tailrace.mongod.store.job_pace import WritePace
from tailrace.query.expressions.operands import is_number

_MOST_MEMBERS: Final = 50
_QUORUMS: Final = ("votingMembers", "majority")


async def run(context: MemberContext) -> dict[str, Any]:
    """Create indexes, except those that exist."""
    arguments = context.arguments()
    arguments.ignore("indexes", "indexUUID", "rawData")
    if arguments.is_null("indexes"):
        raise CommandError(10065, "invalid parameter: expected an object (indexes)")
    specs = [decode(raw) for raw in context.documents("indexes")]
    ignore_unknown = arguments.boolean("ignoreUnknownIndexOptions", False)
    quorum = _commit_quorum(arguments)
    arguments.finish()
    database, name = context.database, context.collection_name()
    if not specs:
        raise CommandError(ErrorCode.BadValue, "Must specify at least one index to create")
    created = await run_write(
        context, lambda unit: create_indexes(unit, database, name, specs, ignore_unknown=ignore_unknown)
    )
    if created.created_collection:
        context.created[f"{database}.{name}"] = None
    failure = created.failure
    if created.scan is not None:
        failure = await _build(context, created.scan)
    if failure is not None:
        raise _with_place(failure, database, name)
    reply: dict[str, Any] = {"numIndexesBefore": created.before, "numIndexesAfter": created.after}
    is_changed = created.before != created.after
    if is_changed or created.created_collection:
        # A transaction builds indexes only on collections of its own, which the server calls created by this.
        is_new = created.created_collection or context.transaction is not None
        reply |= {"createdCollectionAutomatically": is_new, "commitQuorum": quorum}
    if created.some_exist:
        reply["note"] = "index already exists" if is_changed else "all indexes already exist"
    return reply


async def _build(context: MemberContext, scan: BuildScan) -> CommandError | None:
    """Build indexes while others write; returns why that has failed."""
    store = context.node.store
    context.is_partly_done = True
    pace = WritePace(context.check_deadline, is_long=True)
    try:
        while True:
            context.check_deadline()
            with context.computing(), store.snapshot() as snapshot:
                piece = scan.next_piece(snapshot)
            if not piece:
                break
            await store.write(partial(add_keys, scan=scan, piece=piece), pace=pace)
        return await store.write(
            partial(end_build, scan=scan), deadline=context.deadline, waiting=context.waiting, pace=pace
        )
    except BaseException as error:
        cause = error if isinstance(error, CommandError) else context.interruption
        if cause is None:
            cause = CommandError(ErrorCode.IndexBuildAborted, "the index build was interrupted")
        await store.write(partial(abort_scanned, scan=scan, error=cause))
        raise
    finally:
        scan.build.ended.set()


def _commit_quorum(arguments: Arguments) -> Any:
    value = arguments.value("commitQuorum", "votingMembers")
    if not (is_string(value) or is_number(value)):
        raise CommandError(
            ErrorCode.TypeMismatch,
            f"commitQuorum has to be a string or a number, but found: {type_name(value)}",
        )
    if is_string(value):
        if not value:
            raise CommandError(ErrorCode.FailedToParse, "commitQuorum can't be an empty string")
        if value not in _QUORUMS:
            reason = f"No write concern mode named '{value}' found in replica set"
            raise CommandError(ErrorCode.UnknownReplWriteConcern, reason)
        return value
    number = arguments.integer("commitQuorum")
    if not 0 <= number <= _MOST_MEMBERS:
        raise CommandError(
            ErrorCode.FailedToParse,
            f"commitQuorum has to be a non-negative number and not greater than {_MOST_MEMBERS}",
        )
    if number > 1:
        raise CommandError(
            ErrorCode.UnsatisfiableCommitQuorum, "Not enough data-bearing nodes to satisfy commit quorum"
        )
    return number


def _with_place(error: CommandError, database: str, name: str) -> CommandError:
    failed = CommandError(error.code, f"Index build failed: {database}.{name}: {error.message}")
    failed.details = error.details
    return failed


_FIELDS: Final = command(
    {
        "createIndexes": COLLECTION, "indexes": array_of(OBJECT), "ignoreUnknownIndexOptions": LOOSE_FLAG,
        "commitQuorum": ANY, "isTimeseriesNamespace": FLAG, "indexUUID": UUID, "rawData": FLAG,
    },
    since={"indexUUID": LATER, "rawData": LATER},
)  # fmt: skip

COMMAND = Command(
    "createIndexes",
    run,
    needs=on_collection("createIndex"),
    help="Create indexes, and the collection if necessary.",
    fields=_FIELDS,
    is_write=True,
    in_transaction=True,
)
