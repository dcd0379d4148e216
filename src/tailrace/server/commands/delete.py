"""`delete`: remove documents."""

from typing import Any, Final

from tailrace.bsonio.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.server.arguments import Arguments
from tailrace.server.command import Command, Reply
from tailrace.server.context import Context
from tailrace.server.writes.batch import Batch, run_statements
from tailrace.server.writes.delete import DeleteSpec, run_delete
from tailrace.server.writes.namespaces import check_collection_uuid
from tailrace.server.writes.retries import RetryHistory
from tailrace.server.writes.unit import WritingUnit, run_write
from tailrace.server.writes.variables import CommandTime, command_variables
from tailrace.server.writes.write_errors import WriteErrors

_PATH: Final = "delete.deletes"


async def run(context: Context) -> Reply:
    """How many documents were removed, and which statements failed and why."""
    specs = [_statement(decode(raw)) for raw in context.documents("deletes")]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))
    let = arguments.document("let", None)
    arguments.ignore("deletes")
    arguments.finish()
    if batch.is_retryable and any(spec.multi for spec in specs):
        raise CommandError(ErrorCode.InvalidOptions, "Cannot use retryable writes with limit=0")
    return await run_write(context, lambda unit: _run(unit, batch, specs, let))


def _statement(fields: dict[str, Any]) -> DeleteSpec:
    arguments = Arguments(_PATH, fields)
    query = arguments.document("q")
    limit = arguments.number("limit")
    collation = arguments.document("collation", None)
    hint = arguments.value("hint", None)
    arguments.ignore("sampleId")
    arguments.finish()
    if limit not in (0, 1):
        reason = f"The limit field in delete objects must be 0 or 1. Got {limit}"
        raise CommandError(ErrorCode.FailedToParse, reason)
    return DeleteSpec(query, limit == 0, collation, hint)


def _run(
    unit: WritingUnit, batch: Batch, specs: list[DeleteSpec], let: dict[str, Any] | None
) -> dict[str, Any]:
    context = batch.context
    check_collection_uuid(unit.catalog, batch.database, batch.name, batch.collection_uuid)
    history = RetryHistory.open(unit, context) if batch.is_retryable else None
    variables = command_variables(CommandTime(context), let)
    errors = WriteErrors()
    removed = 0
    retried: list[int] = []

    def execute(index: int, spec: DeleteSpec) -> None:
        nonlocal removed
        statement_id = batch.statement_id(index)
        done = history.find(statement_id) if history is not None and statement_id is not None else None
        if done is not None and statement_id is not None:
            removed += 1
            retried.append(statement_id)
            return
        outcome = run_delete(
            unit, context, batch.database, batch.name, spec, variables, statement_id=statement_id
        )
        removed += outcome.number

    run_statements(batch, specs, execute, errors)
    reply: dict[str, Any] = errors.into({"n": removed})
    if retried:
        reply["retriedStmtIds"] = retried
    return reply


COMMAND = Command(
    "delete",
    run,
    help="Delete documents of a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
