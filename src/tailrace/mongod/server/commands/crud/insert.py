"""`insert`: insert documents into a collection."""

from collections.abc import Sequence
from typing import Any

from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.batch import Batch
from tailrace.mongod.server.writes.fields import INSERT_FIELDS
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.unit_of_work import UnitOfWork


async def run(context: MemberContext) -> Reply:
    documents = context.documents("documents")
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(documents))
    return await run_write(context, lambda unit: _insert(unit, batch, documents), rehearsed=True)


def _insert(unit: UnitOfWork, batch: Batch, documents: Sequence[bytes]) -> dict[str, Any]:
    runner = batch.runner(unit)
    inserted = 0

    def execute(index: int, document: bytes) -> None:
        nonlocal inserted
        runner.insert(batch.namespace, document, batch.statement_id(index))
        inserted += 1

    errors = batch.run(documents, execute)
    return batch.reply({"n": inserted}, errors, runner)


def _needs(context: MemberContext) -> Rights:
    bypasses = ("bypassDocumentValidation",) if context.command.get("bypassDocumentValidation") else ()
    return on_named(context, context.command.get(context.name), "insert", *bypasses)


COMMAND = Command(
    "insert",
    run,
    needs=_needs,
    help="Insert documents into a collection.",
    fields=INSERT_FIELDS,
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
