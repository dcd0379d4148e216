"""`delete`: delete documents."""

from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.batch import Batch
from tailrace.mongod.server.writes.retries import is_retryable
from tailrace.mongod.server.writes.specs import DeleteSpec
from tailrace.mongod.server.writes.unit import run_write
from tailrace.mongod.store.unit_of_work import UnitOfWork

_PATH: Final = "delete.deletes"


async def run(context: MemberContext) -> Reply:
    specs = [read_statement(decode(raw)) for raw in context.documents("deletes")]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))
    arguments.ignore("deletes")
    arguments.finish()
    if is_retryable(context) and any(spec.multi for spec in specs):
        raise CommandError(ErrorCode.InvalidOptions, "Cannot use retryable writes with limit=0")
    return await run_write(context, lambda unit: _delete(unit, batch, specs))


def read_statement(fields: dict[str, Any]) -> DeleteSpec:
    """Read a statement."""
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


def _delete(unit: UnitOfWork, batch: Batch, specs: list[DeleteSpec]) -> dict[str, Any]:
    runner = batch.runner(unit)
    removed = 0

    def execute(index: int, spec: DeleteSpec) -> None:
        nonlocal removed
        removed += runner.delete(batch.namespace, spec, batch.statement_id(index)).removed

    errors = batch.run(specs, execute)
    return batch.reply({"n": removed}, errors, runner)


COMMAND = Command(
    "delete",
    run,
    help="Delete documents of a collection.",
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
