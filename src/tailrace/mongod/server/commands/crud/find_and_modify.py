"""`findAndModify`: change or remove one document and return it."""

from typing import Any

from tailrace.bson import raw as rawbson
from tailrace.bson.documents import encode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.fields import FIND_AND_MODIFY_FIELDS
from tailrace.mongod.server.writes.find_and_modify import FindAndModifySpec, Modified, find_and_modify
from tailrace.mongod.server.writes.jobs import ends_command
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec, read_array_filters, read_hint
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.unit_of_work import UnitOfWork


async def run(context: MemberContext) -> Reply:
    """The reply has the document before or after the change."""
    arguments = context.arguments()
    name = context.collection_name()
    namespace = Namespace(context.database, name, collection_uuid(arguments))
    spec = read_change(arguments)
    modified = await run_write(context, lambda unit: _modify(unit, context, namespace, spec), rehearsed=True)
    if isinstance(modified, CommandError):
        raise modified
    if modified.value is None:
        value = rawbson.element(rawbson.NULL, b"value", b"")
    else:
        value = rawbson.element(rawbson.DOCUMENT, b"value", modified.value)
    retried: dict[str, Any] = {"retriedStmtId": spec.statement_id} if modified.was_retried else {}
    facts = rawbson.body(encode({"lastErrorObject": dict(modified.facts)}))
    return rawbson.document(facts, value, rawbson.body(encode(retried)))


def _modify(
    unit: UnitOfWork, context: MemberContext, namespace: Namespace, spec: FindAndModifySpec
) -> Modified | CommandError:
    """Execute the command; an upsert that fails leaves the collection that it has created."""
    is_missing = unit.catalog.collection(str(namespace)) is None
    try:
        return find_and_modify(unit, context, namespace, spec)
    except CommandError as error:
        is_created = is_missing and unit.catalog.collection(str(namespace)) is not None
        if not is_created or ends_command(error):
            raise
        return error


def read_change(arguments: Arguments) -> FindAndModifySpec:
    """Read the arguments."""
    removes = arguments.boolean("remove", False)
    update = arguments.value("update", None)
    upserts = arguments.boolean("upsert", False)
    returns_new = arguments.boolean("new", False)
    array_filters = read_array_filters(arguments)
    _check(removes, update, upserts, returns_new, array_filters)
    query = arguments.document("query", {})
    collation = arguments.collation()
    hint = read_hint(arguments)
    sort = arguments.document("sort", None)
    change: UpdateSpec | DeleteSpec
    if removes:
        change = DeleteSpec(query, collation=collation, hint=hint, sort=sort)
    else:
        change = UpdateSpec(
            query,
            update,
            upsert=upserts,
            array_filters=array_filters or (),
            collation=collation,
            hint=hint,
            sort=sort,
        )
    return FindAndModifySpec(
        change,
        returns_new,
        arguments.document("fields", None),
        arguments.integer("stmtId", 0),
        arguments.document("let", None),
        arguments.boolean("bypassDocumentValidation", False),
        not arguments.boolean("bypassEmptyTsReplacement", False),
        arguments.boolean("rawData", False),
    )


def _check(
    removes: bool, update: Any, upserts: bool, returns_new: bool, array_filters: list[Any] | None
) -> None:
    """Refuse arguments that contradict each other."""
    problem = None
    if removes:
        if update is not None:
            problem = "Cannot specify both an update and remove=true"
        elif upserts:
            problem = "Cannot specify both upsert=true and remove=true"
        elif returns_new:
            problem = (
                "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document"
            )
        elif array_filters is not None:
            problem = "Cannot specify arrayFilters and remove=true"
    elif update is None:
        problem = "Either an update or remove=true must be specified"
    if problem is not None:
        raise CommandError(ErrorCode.FailedToParse, problem)


def _needs(context: MemberContext) -> Rights:
    command = context.command
    changes = ("remove",) if command.get("remove") else ("update",)
    adds = ("insert",) if command.get("upsert") else ()
    bypasses = ("bypassDocumentValidation",) if command.get("bypassDocumentValidation") else ()
    return on_named(context, command.get(context.name), "find", *changes, *adds, *bypasses)


COMMAND = Command(
    "findAndModify",
    run,
    needs=_needs,
    help="Change or remove one document and return it.",
    fields=FIND_AND_MODIFY_FIELDS,
    aliases=("findandmodify",),
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
