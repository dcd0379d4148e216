"""`update`: change documents, or insert one where none matches."""

from typing import Any, Final

from tailrace.bsonio.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.arguments import Arguments
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.writes.batch import Batch, run_statements
from tailrace.server.writes.namespaces import check_collection_uuid
from tailrace.server.writes.retries import RetryHistory
from tailrace.server.writes.unit import WritingUnit, run_write
from tailrace.server.writes.update import Updater, UpdateSpec
from tailrace.server.writes.variables import CommandTime, command_variables
from tailrace.server.writes.write_errors import WriteErrors

_PATH: Final = "update.updates"


async def run(context: Context) -> Reply:
    """How many documents matched, were changed and were inserted, and which statements failed and why."""
    specs = [_statement(decode(raw)) for raw in context.documents("updates")]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))
    let = arguments.document("let", None)
    arguments.ignore("updates", "bypassEmptyTsReplacement")
    arguments.finish()
    if batch.is_retryable and any(spec.multi for spec in specs):
        reason = "Cannot use retryable writes with multi=true"
        raise CommandError(ErrorCode.InvalidOptions, reason)
    return await run_write(context, lambda unit: _run(unit, batch, specs, let))


def _statement(fields: dict[str, Any]) -> UpdateSpec:
    arguments = Arguments(_PATH, fields)
    spec = UpdateSpec(
        query=arguments.document("q"),
        update=arguments.value("u"),
        multi=arguments.boolean("multi", False),
        upsert=arguments.boolean("upsert", False),
        array_filters=arguments.array("arrayFilters", ()),
        collation=arguments.document("collation", None),
        hint=arguments.value("hint", None),
        sort=arguments.document("sort", None),
        constants=arguments.document("c", None),
        supplies_document=arguments.boolean("upsertSupplied", False),
    )
    arguments.ignore("sampleId", "allowShardKeyUpdatesWithoutFullShardKeyInQuery")
    arguments.finish()
    return spec


def _run(
    unit: WritingUnit, batch: Batch, specs: list[UpdateSpec], let: dict[str, Any] | None
) -> dict[str, Any]:
    context = batch.context
    check_collection_uuid(unit.catalog, batch.database, batch.name, batch.collection_uuid)
    history = RetryHistory.open(unit, context) if batch.is_retryable else None
    time = CommandTime(context)
    updater = Updater(
        unit, context, time, command_variables(time, let), bypasses_validation=batch.bypasses_validation
    )
    errors = WriteErrors()
    matched = modified = 0
    upserted: list[dict[str, Any]] = []
    retried: list[int] = []

    def execute(index: int, spec: UpdateSpec) -> None:
        nonlocal matched, modified
        statement_id = batch.statement_id(index)
        done = history.find(statement_id) if history is not None and statement_id is not None else None
        if done is not None and statement_id is not None:
            outcome = done.update_outcome()
            retried.append(statement_id)
        else:
            outcome = updater.run(batch.database, batch.name, spec, statement_id=statement_id)
        matched += outcome.matched
        modified += outcome.modified
        if outcome.upserted is not None:
            upserted.append({"index": index, "_id": outcome.upserted_id})

    run_statements(batch, specs, execute, errors)
    reply: dict[str, Any] = {"n": matched + len(upserted)}
    if upserted:
        reply["upserted"] = upserted
    reply["nModified"] = modified
    errors.into(reply)
    if retried:
        reply["retriedStmtIds"] = retried
    return reply


COMMAND = Command(
    "update",
    run,
    help="Update documents of a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
