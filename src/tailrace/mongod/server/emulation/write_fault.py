"""Apply the fail point `onPrimaryTransactionalWrite` to retryable writes and to commits of transactions.

It acts before a statement changes something. ``failBeforeCommitExceptionCode`` in its data makes the
statement fail; unless ``closeConnection`` is false, the client gets no reply. An insert command writes its
documents in batches; if a batch fails, its documents are inserted one by one, and each is a write of its own.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.parameters import INSERT_BATCH
from tailrace.mongod.server.emulation.fail_command import injected_error
from tailrace.mongod.server.emulation.fail_points import ON_TRANSACTIONAL_WRITE
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

_BATCH_BYTES: Final = 256 << 10
"""A batch of inserted documents ends when it is that large."""

T = TypeVar("T")


class WriteFault:
    """The fail point, acting on one command. Its decisions stay the same if the job has to run again."""

    def __init__(self, context: "Context") -> None:
        self._context = context
        self._point = context.node.fail_points[ON_TRANSACTIONAL_WRITE]
        self._loop = asyncio.get_running_loop()
        self._batches = _batches(context) if context.entry.name == "insert" else {}
        self._decided: dict[int, CommandError | None] = {}

    @classmethod
    def of(cls, context: "Context") -> "WriteFault | None":
        """The fail point for a command; None if it is off or does not concern it."""
        if not context.node.fail_points.is_on(ON_TRANSACTIONAL_WRITE):
            return None
        is_retryable_write = context.txn_number is not None and not context.in_transaction
        return cls(context) if is_retryable_write or context.entry.ends_transaction else None

    def around(self, work: Callable[[UnitOfWork], T]) -> Callable[[UnitOfWork], T]:
        """A job of the writer that asks before each change of a numbered statement."""

        def watched(unit: UnitOfWork) -> T:
            if isinstance(unit, WriteUnit):
                unit.before_statement = self._before_statement
            return work(unit)

        return watched

    def before_commit(self) -> None:
        """Raise if the commit of a transaction has to fail."""
        self._check(0)

    def _before_statement(self, statement: int) -> None:
        batch = self._batches.get(statement)
        if batch is not None:
            try:
                self._check(batch)
            except CommandError:
                pass  # the documents are inserted one by one
            else:
                return
        self._check(statement)

    def _check(self, number: int) -> None:
        if number not in self._decided:
            self._decided[number] = self._decide()
        error = self._decided[number]
        if error is not None:
            raise error

    def _decide(self) -> CommandError | None:
        if not self._point.take():
            return None
        self._loop.call_soon_threadsafe(self._point.wake)
        data: Mapping[str, Any] = self._point.data
        if data.get("closeConnection", True):
            self._context.closes_connection = True
        code = data.get("failBeforeCommitExceptionCode")
        # A write conflict is no error of a statement: the server runs the statement again.
        if not isinstance(code, int | float) or code == ErrorCode.WriteConflict:
            return None
        return injected_error(int(code), f"Failing the write via '{ON_TRANSACTIONAL_WRITE}' failpoint")


def _batches(context: "Context") -> dict[int, int]:
    """The batch of each statement of an insert, as a number below zero; none for a document by itself."""
    documents = context.documents("documents")
    numbers = context.command.get("stmtIds") or range(len(documents))
    most = context.parameters[INSERT_BATCH]
    batches: list[list[int]] = [[]]
    size = 0
    for number, document in zip(numbers, documents, strict=False):
        if len(batches[-1]) >= most or size >= _BATCH_BYTES:
            batches.append([])
            size = 0
        batches[-1].append(number)
        size += len(document)
    return {number: -1 - at for at, batch in enumerate(batches) if len(batch) > 1 for number in batch}
