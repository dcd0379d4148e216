"""`insert`: insert documents into a collection."""

from tailrace.errors import CommandError
from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.release import LATER_MEASUREMENTS
from tailrace.mongod.server.writes.batch import Batch, check_number_of
from tailrace.mongod.server.writes.fields import INSERT_FIELDS
from tailrace.mongod.server.writes.jobs import BatchSums
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.store.indexes.index_values import INDEXED_ARRAY


async def run(context: MemberContext) -> Reply:
    documents = context.documents("documents")
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(documents))

    inserts_later = context.node.release.has(LATER_MEASUREMENTS)

    def execute(runner: StatementRunner, index: int, document: bytes, sums: _Inserted) -> None:
        if sums.refused is not None:
            raise sums.refused
        try:
            runner.insert(batch.namespace, document, batch.statement_id(index))
        except CommandError as error:
            if error.code == INDEXED_ARRAY and not inserts_later:
                sums.refused = error
            raise
        sums.n += 1

    sums, runner = await batch.run(context, documents, execute, _Inserted())
    return batch.reply({"n": sums.n}, sums, runner)


class _Inserted(BatchSums):
    __slots__ = ("n", "refused")

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.refused: CommandError | None = None
        """Why no further measurement is inserted."""

    def copy(self) -> "_Inserted":
        copied = _Inserted()
        copied.n, copied.refused, copied.errors = self.n, self.refused, self.errors.copy()
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
