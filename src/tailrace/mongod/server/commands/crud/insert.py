"""`insert`: insert documents into a collection."""

from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.batch import Batch, check_number_of
from tailrace.mongod.server.writes.fields import INSERT_FIELDS
from tailrace.mongod.server.writes.jobs import BatchSums
from tailrace.mongod.server.writes.statements import StatementRunner


async def run(context: MemberContext) -> Reply:
    documents = context.documents("documents")
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(documents))

    def execute(runner: StatementRunner, index: int, document: bytes, sums: _Inserted) -> None:
        runner.insert(batch.namespace, document, batch.statement_id(index))
        sums.n += 1

    sums, runner = await batch.run(context, documents, execute, _Inserted())
    return batch.reply({"n": sums.n}, sums, runner)


class _Inserted(BatchSums):
    __slots__ = ("n",)

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def copy(self) -> "_Inserted":
        copied = _Inserted()
        copied.n, copied.errors = self.n, self.errors.copy()
        return copied


def _needs(context: MemberContext) -> Rights:
    bypasses = ("bypassDocumentValidation",) if context.command.get("bypassDocumentValidation") else ()
    return on_named(context, context.command.get(context.name), "insert", *bypasses)


COMMAND = Command(
    "insert",
    run,
    needs=_needs,
    help="Insert documents into a collection.",
    fields=INSERT_FIELDS,
    check_first=check_number_of("documents"),
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
