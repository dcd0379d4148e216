"""`update`: update documents, or insert one if none matches."""

from typing import Any, Final

from tailrace.bson.documents import decode
from tailrace.mongod.server.access.needs import Rights, on_named
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.command import Command, Reply
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.release import CURRENT, Release
from tailrace.mongod.server.writes.batch import Batch, check_number_of
from tailrace.mongod.server.writes.fields import UPDATE_FIELDS, UPDATE_STATEMENT
from tailrace.mongod.server.writes.jobs import BatchSums
from tailrace.mongod.server.writes.specs import UpdateSpec, read_update
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.pacing import with_ticks

_PATH: Final = "update.updates"


async def run(context: MemberContext) -> Reply:
    statements = with_ticks(context.documents("updates"))
    specs = [read_statement(decode(raw), context.node.release) for raw in statements]
    arguments = context.arguments()
    batch = Batch.parse(context, arguments, len(specs))

    def execute(runner: StatementRunner, index: int, spec: UpdateSpec, sums: _Updated) -> None:
        outcome = runner.update(batch.namespace, spec, batch.statement_id(index))
        sums.matched += outcome.matched
        sums.modified += outcome.modified
        if outcome.upserted is not None:
            sums.upserted.append({"index": index, "_id": outcome.upserted_id})

    sums, runner = await batch.run(context, specs, execute, _Updated())
    reply = batch.reply({"n": sums.matched + len(sums.upserted)}, sums, runner)
    if runner.is_unacknowledged:
        return {**reply, "nModified": 0}
    if sums.upserted:
        reply["upserted"] = sums.upserted
    reply["nModified"] = sums.modified
    return reply


class _Updated(BatchSums):
    __slots__ = ("matched", "modified", "upserted")

    def __init__(self) -> None:
        super().__init__()
        self.matched = self.modified = 0
        self.upserted: list[dict[str, Any]] = []

    def copy(self) -> "_Updated":
        copied = _Updated()
        copied.matched, copied.modified = self.matched, self.modified
        copied.upserted, copied.errors = list(self.upserted), self.errors.copy()
        return copied


def read_statement(fields: dict[str, Any], release: Release = CURRENT) -> UpdateSpec:
    """Read a statement."""
    arguments = Arguments.checked(_PATH, fields, UPDATE_STATEMENT, release)
    return read_update(arguments, query="q", update="u", constants="c")


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
    check_first=check_number_of("updates"),
    is_write=True,
    in_transaction=True,
    is_retryable_write=True,
)
