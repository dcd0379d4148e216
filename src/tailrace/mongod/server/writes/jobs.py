"""Run the statements of a command: as a sequence of short jobs of the writer, or in the open transaction.

All other writes wait for the job that the writer runs. So a command that writes much ends its job when the
unit is due, between two statements or between two documents of one, and goes on in the next. Other clients'
writes are committed between, as on a server, whose statements on many documents yield; a command that is
interrupted has written what its jobs before have written. In a transaction the statements are one job.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, Self, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.write_fault import WriteFault
from tailrace.mongod.server.writes.retries import NO_UPDATE
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.server.writes.targets import PieceEnds, Unfinished
from tailrace.mongod.server.writes.unit import rehearse
from tailrace.mongod.store.job_pace import WritePace
from tailrace.mongod.store.transactions.rehearsal import RehearsalUnit
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

_ENDS_COMMAND: Final = frozenset(
    {
        ErrorCode.MaxTimeMSExpired,
        ErrorCode.LockTimeout,
        ErrorCode.WriteConflict,
        ErrorCode.IncompleteTransactionHistory,
        ErrorCode.SnapshotUnavailable,
        ErrorCode.NoSuchTransaction,
        ErrorCode.NotWritablePrimary,
        ErrorCode.InterruptedAtShutdown,
        ErrorCode.Interrupted,
        ErrorCode.InterruptedDueToReplStateChange,
    }
)
"""Errors that do not concern a single statement: the whole command fails, and changes nothing more."""
_MAX_MESSAGES: Final = 1 << 20
"""Characters of messages in one reply; later errors have no message, so that the reply stays small."""
_MANY_STATEMENTS: Final = 1000
_MANY_BYTES: Final = 1 << 20
"""A command with more than these lets the jobs of others go first."""

Statement = TypeVar("Statement")


class WriteErrors:
    """The `writeErrors` of a reply: statements that failed, in the order of the batch."""

    def __init__(self) -> None:
        self._found: list[tuple[int, CommandError]] = []

    def copy(self) -> "WriteErrors":
        copied = WriteErrors()
        copied._found = list(self._found)
        return copied

    def add(self, index: int, error: CommandError) -> None:
        """Add the error of a statement."""
        self._found.append((index, error))

    def documents(self) -> Iterator[dict[str, Any]]:
        left = _MAX_MESSAGES
        for index, error in self._found:
            message = error.message if left > 0 else ""
            left -= len(message)
            yield {"index": index, "code": error.code, "errmsg": message, **error.details}

    def into(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The reply with `writeErrors`, if there are any."""
        if self._found:
            reply["writeErrors"] = list(self.documents())
        return reply


class Sums(ABC):
    """What the statements of a command have done so far."""

    __slots__ = ()

    @abstractmethod
    def copy(self) -> Self:
        """A copy for the next job, which may have to run again."""

    @abstractmethod
    def add_error(self, index: int, error: CommandError) -> None:
        """Note a statement that has failed."""


class BatchSums(Sums):
    """Sums of a command whose reply has `writeErrors`."""

    __slots__ = ("errors",)

    def __init__(self) -> None:
        self.errors = WriteErrors()

    def add_error(self, index: int, error: CommandError) -> None:
        self.errors.add(index, error)


Result = TypeVar("Result", bound=Sums)


class _Progress(Generic[Result]):
    """How far the statements have come when a job begins."""

    __slots__ = ("is_done", "position", "runner", "sums", "unfinished")

    def __init__(self, sums: Result, position: int, runner: StatementRunner | None) -> None:
        self.sums = sums
        self.position = position
        self.runner = runner
        """That of the job before."""
        self.unfinished: Unfinished | None = None
        """The statement at the position, if it has changed some of its documents."""
        self.is_done = False


class Statements(Generic[Statement, Result]):
    """The statements of a command, and how to run one of them."""

    def __init__(
        self,
        context: MemberContext,
        statements: Sequence[Statement],
        runner: Callable[[UnitOfWork, StatementRunner | None], StatementRunner],
        execute: Callable[[StatementRunner, int, Statement, Result], None],
        sums: Result,
        *,
        stops: bool,
    ) -> None:
        """``runner`` makes the runner for a job, and gets that of the job before.

        With ``stops`` the first error ends the command; in a transaction it does in any case.
        """
        self._context = context
        self._statements = statements
        self._runner = runner
        self._execute = execute
        self._stops = stops or context.in_transaction
        self._before = _Progress(sums, 0, None)
        self._rehearsed: int | None = None
        """After how many steps the rehearsal of this job has ended early."""

    async def run(self) -> tuple[Result, StatementRunner]:
        """Run them; when this returns outside of a transaction, they are on disk.

        Returns the sums, and the runner of the last job.
        """
        context = self._context
        pace = WritePace(context.check_deadline, self._rehearse, context.computing)
        context.evaluations = None
        if context.transaction is not None:
            done = await context.transaction.unit.write(self._work, pace)
        else:
            done = await self._run_jobs(pace)
        assert done.runner is not None, "at least one job has run"
        return done.sums, done.runner

    async def _run_jobs(self, pace: WritePace) -> _Progress[Result]:
        context = self._context
        store = context.node.store
        fault = WriteFault.of(context)
        work = self._work if fault is None else fault.around(self._work)
        pace.is_long = self._is_large()
        while True:
            progress: _Progress[Result] = await store.write(
                work, deadline=context.deadline, waiting=context.waiting, pace=pace
            )
            if progress.is_done:
                return progress
            self._before = progress
            context.check_deadline()
            context.is_partly_done = True
            context.evaluations = None
            pace.is_long = True
            pace.begins_rehearsed = self._rehearsed is not None
            self._rehearsed = None
            if progress.unfinished is not None and not progress.unfinished.selection.is_listed:
                with context.computing(), store.snapshot() as snapshot:
                    progress.unfinished.list_rest(snapshot, context)

    def _is_large(self) -> bool:
        request = self._context.request
        size = len(request.command) + sum(sum(map(len, each)) for each in request.sequences.values())
        return len(self._statements) > _MANY_STATEMENTS or size > _MANY_BYTES

    def _work(self, unit: UnitOfWork) -> _Progress[Result]:
        """Run statements from where the job before has ended until the unit is due."""
        if self._rehearsed is not None and isinstance(unit, WriteUnit):
            unit.steps_left = self._rehearsed
        before, statements, execute = self._before, self._statements, self._execute
        runner = self._runner(unit, before.runner)
        runner.unfinished = before.unfinished
        sums = before.sums.copy()
        now = _Progress(sums, len(statements), runner)
        is_due = unit.is_due
        for index in range(before.position, len(statements)):
            try:
                execute(runner, index, statements[index], sums)
            except PieceEnds as piece:
                now.position, now.unfinished = index, piece.unfinished
                return now
            except CommandError as error:
                if ends_command(error):
                    raise
                # Without its traceback, which refers to what refers to the sums: a cycle.
                sums.add_error(index, error.with_traceback(None))
                if self._stops:
                    break
            if is_due() and index + 1 < len(statements):
                now.position = index + 1
                return now
        now.is_done = True
        return now

    def _rehearse(self) -> bool:
        self._rehearsed = None

        def work(unit: RehearsalUnit) -> None:
            if not self._work(unit).is_done:
                self._rehearsed = unit.steps

        return rehearse(self._context, self._context.node.store, work)


def ends_command(error: CommandError) -> bool:
    """Whether an error ends the whole command instead of one statement."""
    return error.code in _ENDS_COMMAND or error.code == NO_UPDATE
