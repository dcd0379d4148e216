"""Run the statements of a command: as a sequence of short jobs of the writer, or in the open transaction.

All other writes wait for the job that the writer runs. So a command that writes much ends its job when the
unit is due, between two statements or between two documents of one, and goes on in the next. Other clients'
writes are committed between, as on a server, whose statements on many documents yield; a command that is
interrupted has written what its jobs before have written. In a transaction the statements are one job.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context, MemberContext
from tailrace.mongod.server.emulation.write_fault import WriteFault
from tailrace.mongod.server.writes.retries import NO_UPDATE
from tailrace.mongod.server.writes.statements import StatementRunner
from tailrace.mongod.server.writes.targets import PieceEnds, Unfinished
from tailrace.mongod.server.writes.unit import rehearse
from tailrace.mongod.store.store import WritePace
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

    @abstractmethod
    def copy(self) -> Self:
        """A copy for the next job, which may have to run again."""

    @abstractmethod
    def add_error(self, index: int, error: CommandError) -> None:
        """Note a statement that has failed."""


@dataclass(slots=True)
class BatchSums(Sums):
    """Sums of a command whose reply has `writeErrors`."""

    errors: WriteErrors = field(default_factory=WriteErrors)

    def copy(self) -> Self:
        copied = copy(self)
        copied.errors = self.errors.copy()
        return copied

    def add_error(self, index: int, error: CommandError) -> None:
        self.errors.add(index, error)


Result = TypeVar("Result", bound=Sums)


@dataclass(slots=True)
class _Progress(Generic[Result]):
    """How far the statements have come when a job begins."""

    sums: Result
    position: int = 0
    is_done: bool = False
    runner: StatementRunner | None = None
    """That of the job before."""
    unfinished: Unfinished | None = None
    """The statement at the position, if it has changed some of its documents."""


@dataclass(frozen=True, slots=True)
class Statements(Generic[Statement, Result]):
    """The statements of a command, and how to run one of them."""

    statements: Sequence[Statement]
    stops: bool
    """Whether the first error ends the command; in a transaction it does in any case."""
    runner: Callable[[UnitOfWork, StatementRunner | None], StatementRunner]
    """The runner for a job; gets that of the job before."""
    execute: Callable[[StatementRunner, int, Statement, Result], None]

    async def run(self, context: MemberContext, sums: Result) -> tuple[Result, StatementRunner]:
        """Run them; when this returns outside of a transaction, they are on disk.

        Returns the sums, and the runner of the last job.
        """
        progress = _Progress(sums)
        if context.transaction is not None:
            work = partial(self._work, context, progress)
            pace = WritePace(
                context.check_deadline,
                partial(rehearse, context, context.node.store, work),
                context.computing,
            )
            progress = await context.transaction.unit.write(work, pace)
        else:
            fault = WriteFault.of(context)
            jobs = _Jobs(context, self, fault)
            while not progress.is_done:
                progress = await jobs.next(progress)
        assert progress.runner is not None, "at least one job has run"
        return progress.sums, progress.runner

    def _work(self, context: Context, before: _Progress[Result], unit: UnitOfWork) -> _Progress[Result]:
        """Run statements from where the job before has ended until the unit is due."""
        runner = self.runner(unit, before.runner)
        now = _Progress(before.sums.copy(), before.position, runner=runner)
        runner.unfinished = before.unfinished
        stops = self.stops or context.in_transaction
        while now.position < len(self.statements):
            index = now.position
            try:
                self.execute(runner, index, self.statements[index], now.sums)
            except PieceEnds as piece:
                now.unfinished = piece.unfinished
                return now
            except CommandError as error:
                if ends_command(error):
                    raise
                now.sums.add_error(index, error)
                if stops:
                    break
            now.position += 1
            if unit.is_due():
                return now
        now.is_done = True
        return now


class _Jobs(Generic[Statement, Result]):
    """The jobs of one command outside of transactions."""

    def __init__(
        self, context: MemberContext, statements: Statements[Statement, Result], fault: WriteFault | None
    ) -> None:
        self._context = context
        self._statements = statements
        self._fault = fault
        size = len(context.request.command) + sum(map(_size, context.request.sequences.values()))
        self._is_large = len(statements.statements) > _MANY_STATEMENTS or size > _MANY_BYTES
        self._begins_rehearsed = False
        self._rehearsed: int | None = None
        """After how many steps the rehearsal of this job has ended early."""

    async def next(self, progress: _Progress[Result]) -> _Progress[Result]:
        """Run a job, and what has to be done before it in the event loop."""
        context = self._context
        store = context.node.store
        has_begun = progress.runner is not None
        if has_begun:
            context.check_deadline()
            context.is_partly_done = True
        if progress.unfinished is not None and not progress.unfinished.selection.is_listed:
            with context.computing(), store.snapshot() as snapshot:
                progress.unfinished.list_rest(snapshot, context)
        context.evaluations = None
        self._rehearsed = None
        pace = WritePace(
            context.check_deadline,
            partial(self._rehearse, progress),
            context.computing,
            is_long=has_begun or self._is_large,
            begins_rehearsed=self._begins_rehearsed,
        )
        work = partial(self._work, progress)
        result: _Progress[Result] = await store.write(
            work if self._fault is None else self._fault.around(work),
            deadline=context.deadline,
            waiting=context.waiting,
            pace=pace,
        )
        self._begins_rehearsed = self._rehearsed is not None
        return result

    def _work(self, progress: _Progress[Result], unit: UnitOfWork) -> _Progress[Result]:
        if isinstance(unit, WriteUnit):
            unit.steps_left = self._rehearsed
        return self._statements._work(self._context, progress, unit)

    def _rehearse(self, progress: _Progress[Result]) -> bool:
        self._rehearsed = None

        def work(unit: RehearsalUnit) -> None:
            if not self._statements._work(self._context, progress, unit).is_done:
                self._rehearsed = unit.steps

        return rehearse(self._context, self._context.node.store, work)


def ends_command(error: CommandError) -> bool:
    """Whether an error ends the whole command instead of one statement."""
    return error.code in _ENDS_COMMAND or error.code == NO_UPDATE


def _size(documents: Sequence[bytes]) -> int:
    return sum(map(len, documents))
