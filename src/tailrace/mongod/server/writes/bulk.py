"""Execute bulkWrite: inserts, updates and deletes on several collections, one after another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tailrace.bson.documents import encode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.writes.jobs import Statements, Sums
from tailrace.mongod.server.writes.namespaces import Namespace
from tailrace.mongod.server.writes.specs import DeleteSpec, UpdateSpec
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.store.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """One operation: a document to insert, an update, or a delete."""

    namespace: Namespace
    work: bytes | UpdateSpec | DeleteSpec


@dataclass(frozen=True, slots=True)
class BulkSpec:
    operations: Sequence[BulkOperation]
    ordered: bool
    errors_only: bool
    bypasses_validation: bool
    fills_timestamps: bool
    statement_ids: Sequence[int]
    let: Mapping[str, Any] | None
    raw_data: bool

    def statement_id(self, index: int) -> int | None:
        """The id of an operation; None if the command is not a retryable write."""
        return self.statement_ids[index] if self.statement_ids else None


@dataclass(slots=True)
class BulkResult(Sums):
    operations: Sequence[BulkOperation]
    replies: list[bytes] = field(default_factory=list)
    """One document for each operation that the reply shows."""
    errors: int = 0
    inserted: int = 0
    matched: int = 0
    modified: int = 0
    upserted: int = 0
    deleted: int = 0
    retried: list[int] = field(default_factory=list)

    def copy(self) -> "BulkResult":
        return replace(self, replies=list(self.replies))

    def add_error(self, index: int, error: CommandError) -> None:
        self.errors += 1
        self.replies.append(encode(_failure(index, self.operations[index], error)))

    def summary(self) -> dict[str, Any]:
        """The counters as the reply has them."""
        return {
            "nErrors": self.errors,
            "nInserted": self.inserted,
            "nMatched": self.matched,
            "nModified": self.modified,
            "nUpserted": self.upserted,
            "nDeleted": self.deleted,
        }


async def run_bulk(context: MemberContext, spec: BulkSpec) -> BulkResult:
    """Execute the operations; an ordered bulk ends at its first error, and so does one in a transaction."""

    def new_runner(unit: UnitOfWork, before: StatementRunner | None) -> StatementRunner:
        return StatementRunner(
            unit,
            context,
            let=spec.let,
            bypasses_validation=spec.bypasses_validation,
            fills_timestamps=spec.fills_timestamps,
            raw_data=spec.raw_data,
            before=before,
        )

    def execute(runner: StatementRunner, index: int, operation: BulkOperation, result: BulkResult) -> None:
        reply = _run(runner, operation, spec.statement_id(index), result)
        if not spec.errors_only:
            result.replies.append(encode({"ok": 1.0, "idx": index, **reply}))

    statements = Statements(
        context, spec.operations, new_runner, execute, BulkResult(spec.operations), stops=spec.ordered
    )
    result, runner = await statements.run()
    result.retried = runner.retried
    return result


def _run(
    runner: StatementRunner, operation: BulkOperation, statement_id: int | None, result: BulkResult
) -> dict[str, Any]:
    namespace, work = operation.namespace, operation.work
    if isinstance(work, bytes):
        runner.insert(namespace, work, statement_id)
        result.inserted += 1
        return {"n": 1}
    if isinstance(work, DeleteSpec):
        removed = runner.delete(namespace, work, statement_id).removed
        result.deleted += removed
        return {"n": removed}
    outcome = runner.update(namespace, work, statement_id)
    result.matched += outcome.matched
    result.modified += outcome.modified
    if outcome.upserted is None:
        return {"n": outcome.matched, "nModified": outcome.modified}
    result.upserted += 1
    return {"n": 1, "nModified": 0, "upserted": {"_id": outcome.upserted_id}}


def _failure(index: int, operation: BulkOperation, error: CommandError) -> dict[str, Any]:
    reply: dict[str, Any] = {"ok": 0.0, "idx": index, "code": error.code, **error.details}
    reply |= {"errmsg": error.message, "n": 0}
    return reply | ({"nModified": 0} if isinstance(operation.work, UpdateSpec) else {})
