"""`explain`: show how a command would be run."""

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import Context
from tailrace.mongod.server.dispatch.fields import command
from tailrace.mongod.server.dispatch.kinds import OBJECT, TEXT, is_text_or_symbol, is_uuid
from tailrace.mongod.server.emulation.release import BATCHED_DELETES
from tailrace.mongod.server.reads.explain import VERBOSITIES, Purpose, explain_aggregate, explain_find
from tailrace.mongod.server.reads.requests.aggregate_request import AGGREGATE_FIELDS, AggregateRequest
from tailrace.mongod.server.reads.requests.count_request import COUNT_FIELDS, CountRequest
from tailrace.mongod.server.reads.requests.distinct_request import DISTINCT_FIELDS, DistinctRequest
from tailrace.mongod.server.reads.requests.find_request import FIND_FIELDS, FindRequest
from tailrace.mongod.server.streams.change_streams import is_change_stream, open_change_stream
from tailrace.mongod.server.streams.stream_place import check_whole_deployment


async def run(context: Context) -> Reply:
    """Plan the inner command, and run it as far as the verbosity demands; nothing is written."""
    arguments = context.arguments()
    inner = arguments.document("explain")
    verbosity = arguments.text("verbosity", VERBOSITIES[-1])
    arguments.finish()
    if verbosity not in VERBOSITIES:
        reason = f"verbosity string must be one of {', '.join(VERBOSITIES)}"
        raise CommandError(ErrorCode.BadValue, reason)
    name = next(iter(inner), "")
    explained = _EXPLAINED.get(name)
    if explained is None:
        reason = f"Explain failed due to unknown command: {name}"
        raise CommandError(ErrorCode.CommandNotFound, reason)
    if "$db" in inner and inner["$db"] != context.database:
        reason = f"Mismatched $db in explain command. Expected {context.database} but got {inner['$db']}"
        raise CommandError(ErrorCode.InvalidNamespace, reason)
    if not (is_text_or_symbol(inner[name]) or is_uuid(inner[name]) or name == "aggregate"):
        raise CommandError(ErrorCode.InvalidNamespace, f"collection name has invalid type: {name}")
    return await explained(context, inner, verbosity)


async def _find(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    request = FindRequest.parse(Arguments.checked("find", inner, FIND_FIELDS, context.node.release))
    return await explain_find(context, inner["find"], request, verbosity)


async def _aggregate(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    if is_change_stream(inner.get("pipeline")):
        AGGREGATE_FIELDS.check("aggregate", inner, context.node.release)
        stream = copy.copy(context)
        stream.name = "aggregate"
        stream.command = inner
        return await open_change_stream(stream, is_explained=True)
    arguments = Arguments.checked("aggregate", inner, AGGREGATE_FIELDS, context.node.release)
    check_whole_deployment(context.node, arguments)
    request = AggregateRequest.parse(arguments, is_explained=True)
    return await explain_aggregate(context, request, verbosity)


async def _count(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    request = CountRequest.parse(Arguments.checked("count", inner, COUNT_FIELDS, context.node.release))
    purpose = Purpose(
        "COUNT", is_count=True, is_fast_count=request.is_fast, skipped=request.skip, most=request.most
    )
    return await explain_find(context, inner["count"], request.find, verbosity, purpose)


async def _distinct(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    request = DistinctRequest.parse(
        Arguments.checked("distinct", inner, DISTINCT_FIELDS, context.node.release)
    )
    purpose = Purpose(distinct_key=request.key)
    return await explain_find(context, inner["distinct"], request.find, verbosity, purpose)


async def _update(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    statement = _only_statement(inner, "updates")
    request = _selection(statement, limit=0 if statement.get("multi") else 1)
    purpose = Purpose("UPDATE", upserts=bool(statement.get("upsert")))
    return await explain_find(context, inner["update"], request, verbosity, purpose)


async def _delete(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    statement = _only_statement(inner, "deletes")
    is_single = statement.get("limit") == 1
    is_batched = not is_single and context.node.release.has(BATCHED_DELETES)
    purpose = Purpose("BATCHED_DELETE" if is_batched else "DELETE")
    request = _selection(statement, limit=1 if is_single else 0)
    return await explain_find(context, inner["delete"], request, verbosity, purpose)


async def _find_and_modify(context: Context, inner: dict[str, Any], verbosity: str) -> Reply:
    named = next(iter(inner.values()))
    statement = {**inner, "q": inner.get("query", {})}
    purpose = Purpose(
        "DELETE" if inner.get("remove") else "UPDATE",
        upserts=bool(inner.get("upsert")),
        returns_document=True,
    )
    return await explain_find(context, named, _selection(statement, limit=1), verbosity, purpose)


def _only_statement(inner: Mapping[str, Any], field: str) -> dict[str, Any]:
    statements = Arguments(next(iter(inner)), inner).array(field)
    if len(statements) != 1 or not isinstance(statements[0], dict):
        raise CommandError(ErrorCode.InvalidLength, "explained write batches must be of size 1")
    return statements[0]


def _selection(statement: Mapping[str, Any], *, limit: int) -> FindRequest:
    """The find for the documents that a statement changes."""
    fields = Arguments("statement", statement)
    return FindRequest(
        query=fields.document("q"),
        sort=fields.document("sort", {}),
        hint=fields.value("hint", None) or None,
        collation=fields.document("collation", None),
        limit=limit,
    )


_Explained = Callable[[Context, dict[str, Any], str], Awaitable[Reply]]
_EXPLAINED: Final[dict[str, _Explained]] = {
    "find": _find,
    "aggregate": _aggregate,
    "count": _count,
    "distinct": _distinct,
    "update": _update,
    "delete": _delete,
    "findAndModify": _find_and_modify,
    "findandmodify": _find_and_modify,
}


def _needs(context: Context) -> Rights:
    """Those of the command that is explained."""
    given = context.command.get(context.name)
    inner: dict[str, Any] = given if isinstance(given, dict) else {}
    name = next(iter(inner), "")
    entry = context.node.commands.get(name) if name in _EXPLAINED else None
    if entry is None or entry.needs is None:
        return ()  # it is refused as unknown
    explained = copy.copy(context)
    explained.name, explained.entry, explained.command = name, entry, inner
    return entry.needs(explained)


_FIELDS = command({"explain": OBJECT, "verbosity": TEXT}, required=("explain",))

COMMAND = Command(
    "explain",
    run,
    needs=_needs,
    help="Show how a command would be run.",
    fields=_FIELDS,
    is_read=True,
    same_on_router=True,
)
