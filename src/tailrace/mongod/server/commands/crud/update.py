"""`update`: update documents, or insert one if none matches."""

from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.release import CURRENT, Release
from tailrace.mongod.server.writes.batch import Batch
from tailrace.mongod.server.writes.fields import UPDATE_FIELDS, UPDATE_STATEMENT
from tailrace.mongod.server.writes.specs import UpdateSpec, read_update
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.unit_of_work import UnitOfWork

_PATH: Final = "update.updates"


async def run(context: MemberContext) -> Reply:
    specs = [read_statement(decode(raw), context.node.release) for raw in context.documents("updates")]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))
    return await run_write(context, lambda unit: _update(unit, batch, specs), rehearsed=True)


def read_statement(fields: dict[str, Any], release: Release = CURRENT) -> UpdateSpec:
    """Read a statement."""
    arguments = Arguments.checked(_PATH, fields, UPDATE_STATEMENT, release)
    return read_update(arguments, query="q", update="u", constants="c")


def _update(unit: UnitOfWork, batch: Batch, specs: list[UpdateSpec]) -> dict[str, Any]:
    runner = batch.runner(unit)
    matched = modified = 0
    upserted: list[dict[str, Any]] = []

    def execute(index: int, spec: UpdateSpec) -> None:
        nonlocal matched, modified
        outcome = runner.update(batch.namespace, spec, batch.statement_id(index))
        matched += outcome.matched
        modified += outcome.modified
        if outcome.upserted is not None:
            upserted.append({"index": index, "_id": outcome.upserted_id})

    errors = batch.run(specs, execute)
    reply = batch.reply({"n": matched + len(upserted)}, errors, runner)
    if runner.is_unacknowledged:
        return {**reply, "nModified": 0}
    if upserted:
        reply["upserted"] = upserted
    reply["nModified"] = modified
    return reply


def _needs(context: MemberContext) -> Rights:
    bypasses = ("bypassDocumentValidation",) if context.command.get("bypassDocumentValidation") else ()
    adds = ("insert",) if _adds(context) else ()
    return on_named(context, context.command.get(context.name), "update", *adds, *bypasses)


def _adds(context: MemberContext) -> bool:
    """Whether a statement may insert a document."""
    sequence = context.request.sequences.get("updates")
    if sequence is not None:
        return any(_UPSERT in statement and decode(statement).get("upsert") for statement in sequence)
    statements = context.command.get("updates")
    return isinstance(statements, list) and any(
        isinstance(statement, dict) and statement.get("upsert") for statement in statements
    )


_UPSERT: Final = b"upsert\0"


COMMAND = Command(
    "update",
    run,
    needs=_needs,
    help="Update documents of a collection.",
    fields=UPDATE_FIELDS,
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
