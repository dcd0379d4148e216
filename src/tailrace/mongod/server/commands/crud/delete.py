"""`delete`: delete documents."""

from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.arguments import NOT_GIVEN, Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.kinds import as_number
from tailrace.mongod.server.emulation.release import CURRENT, Release
from tailrace.mongod.server.writes.batch import Batch, check_number_of
from tailrace.mongod.server.writes.fields import DELETE_FIELDS, DELETE_STATEMENT
from tailrace.mongod.server.writes.jobs import BatchSums
from tailrace.mongod.server.writes.specs import DeleteSpec, read_hint
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.pacing import with_ticks

_PATH: Final = "delete.deletes"


async def run(context: MemberContext) -> Reply:
    statements = with_ticks(context.documents("deletes"))
    specs = [read_statement(decode(raw), context.node.release) for raw in statements]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))

    def execute(runner: StatementRunner, index: int, spec: DeleteSpec, sums: _Deleted) -> None:
        sums.n += runner.delete(batch.namespace, spec, batch.statement_id(index)).removed

    sums, runner = await batch.run(context, specs, execute, _Deleted())
    return batch.reply({"n": sums.n}, sums, runner)


class _Deleted(BatchSums):
    __slots__ = ("n",)

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def copy(self) -> "_Deleted":
        copied = _Deleted()
        copied.n, copied.errors = self.n, self.errors.copy()
        return copied


def read_statement(fields: dict[str, Any], release: Release = CURRENT) -> DeleteSpec:
    """Read a statement."""
    arguments = Arguments.checked(_PATH, fields, DELETE_STATEMENT, release)
    query = arguments.document("q")
    limit = _limit(arguments)
    collation = arguments.collation()
    hint = read_hint(arguments)
    if limit not in (0, 1):
        reason = f"The limit field in delete objects must be 0 or 1. Got {limit}"
        raise CommandError(ErrorCode.FailedToParse, reason)
    return DeleteSpec(query, limit == 0, collation, hint)


def _limit(arguments: Arguments) -> int | float:
    """The limit; what is no number counts as 0."""
    value = arguments.given("limit")
    if value is NOT_GIVEN:
        reason = f"BSON field '{_PATH}.limit' is missing but a required field"
        raise CommandError(ErrorCode.IDLFailedToParse, reason)
    return as_number(value) or 0


COMMAND = Command(
    "delete",
    run,
    needs=on_collection("remove"),
    help="Delete documents of a collection.",
    fields=DELETE_FIELDS,
    check_first=check_number_of("deletes"),
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
