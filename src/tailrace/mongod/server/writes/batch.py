"""Run the statements of a write command, and read the options that they share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.common_arguments import collection_uuid
from tailrace.mongod.server.dispatch.context import Context, MemberContext
from tailrace.mongod.server.dispatch.kinds import is_given
from tailrace.mongod.server.writes.jobs import BatchSums, Result, Statements
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.retries import is_numbered
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.store.catalog import BUCKETS
from tailrace.mongod.store.unit_of_work import UnitOfWork

MAX_BATCH_SIZE: Final = 100_000
"""`maxWriteBatchSize` of hello."""

Statement = TypeVar("Statement")


@dataclass(frozen=True, slots=True)
class Batch:
    """The options that insert, update and delete share."""

    context: Context
    namespace: Namespace
    ordered: bool
    bypasses_validation: bool
    statement_ids: Sequence[int]
    """One for each statement; empty if the command is not a retryable write."""
    fills_timestamps: bool
    let: Mapping[str, Any] | None
    raw_data: bool

    @classmethod
    def parse(cls, context: Context, arguments: Arguments, size: int) -> "Batch":
        """Read the shared options of a command with that many statements."""
        name = context.collection_name()
        batch = cls(
            context,
            Namespace(context.database, name, collection_uuid(arguments)),
            arguments.boolean("ordered", True),
            arguments.boolean("bypassDocumentValidation", False),
            read_statement_ids(context, arguments, size),
            not arguments.boolean("bypassEmptyTsReplacement", False),
            arguments.document("let", None),
            arguments.boolean("rawData", False),
        )
        if arguments.boolean("isTimeseriesNamespace", False) and not name.startswith(BUCKETS):
            reason = "'isTimeseriesNamespace' parameter can only be set for a collection system.buckets"
            raise CommandError(5916400, reason)
        context.has_read_statements = True
        return batch

    def runner(self, unit: UnitOfWork, before: StatementRunner | None) -> StatementRunner:
        self.namespace.check_writable(unit)
        return StatementRunner(
            unit,
            self.context,
            let=self.let,
            bypasses_validation=self.bypasses_validation,
            fills_timestamps=self.fills_timestamps,
            raw_data=self.raw_data,
            before=before,
        )

    def statement_id(self, index: int) -> int | None:
        """The id of a statement; None if the command is not a retryable write."""
        return self.statement_ids[index] if self.statement_ids else None

    async def run(
        self,
        context: MemberContext,
        statements: Sequence[Statement],
        execute: Callable[[StatementRunner, int, Statement, Result], None],
        sums: Result,
    ) -> tuple[Result, StatementRunner]:
        """Run statements in order and collect their errors; an ordered batch ends at the first error.

        In a transaction any error ends the batch, because it aborts the transaction.
        """
        return await Statements(context, statements, self.runner, execute, sums, stops=self.ordered).run()

    @staticmethod
    def reply(fields: dict[str, Any], sums: BatchSums, runner: StatementRunner) -> dict[str, Any]:
        """The reply of a command: its own fields, the errors, and the statements executed before."""
        if runner.is_unacknowledged:
            return {"n": 0}
        sums.errors.into(fields)
        if runner.retried:
            fields["retriedStmtIds"] = runner.retried
        return fields


def check_number_of(field: str) -> Callable[[Context], None]:
    """A check of a command whose statements are in ``field``: not too few, and not too many."""

    def check(context: Context) -> None:
        statements = context.request.sequences.get(field)
        if statements is None:
            listed = context.command.get(field)
            if not isinstance(listed, list):
                reason = f"BSON field '{context.name}.{field}' is missing but a required field"
                raise CommandError(ErrorCode.IDLFailedToParse, reason)
            statements = [statement for statement in listed if is_given(statement)]
        check_batch_size(len(statements))

    return check


def check_batch_size(size: int) -> None:
    if not 1 <= size <= MAX_BATCH_SIZE:
        reason = f"Write batch sizes must be between 1 and {MAX_BATCH_SIZE}. Got {size} operations."
        raise CommandError(ErrorCode.InvalidLength, reason)


def read_statement_ids(context: Context, arguments: Arguments, size: int) -> Sequence[int]:
    """The ids of the statements of a retryable write; by default numbered from 0."""
    first = arguments.integer("stmtId", None)
    listed = arguments.array("stmtIds", None)
    if first is not None and listed is not None:
        reason = "May not specify both stmtId and stmtIds in write command"
        raise CommandError(ErrorCode.InvalidOptions, reason)
    if listed is not None:
        listed = [number for number in listed if is_given(number)]
        if len(listed) != size:
            reason = (
                "Number of statement ids must match the number of batch entries. "
                f"Got {len(listed)} statement ids but {size} batch entries."
            )
            raise CommandError(ErrorCode.InvalidLength, reason)
        for number in listed:
            if isinstance(number, bool) or not isinstance(number, int):
                raise arguments.wrong_type("stmtIds", number, "int")
    if not is_numbered(context):
        return ()
    if listed is not None:
        return listed
    if first is None and context.in_transaction:
        return ()  # routers send the ids that they need
    start = first or 0
    return range(start, start + size)
