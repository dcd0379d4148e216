"""The writer: one thread that changes the store, with many jobs in one commit.

The thread takes all queued jobs, runs them in one LMDB transaction, commits it, which syncs the file, and
only then reports to the callers; new jobs are queued while the disk works. So a result means that the change
is on disk, and writers share a sync.

A job is all or nothing. If one raises after it changed something, the transaction is aborted and the jobs
run again, each in its own transaction; jobs therefore have no effects except through the unit they get. A
job whose command has to end, or that computes for too long, is left out, and the others run again.

Others wait for the job that runs, so no job is long. What writes more is a sequence of jobs, each of which
ends when its unit says that it is due (`job_pace.py`). Those after the first, and those of large messages,
are committed apart from the others and take turns with them: nobody waits for more than one of them.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import lmdb

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.store.catalog import Catalog
from tailrace.mongod.store.job_pace import SHARE_SECONDS, JobEnded, JobPacer, JobShare, JobTakesLong
from tailrace.mongod.store.table_writer import WriteState
from tailrace.mongod.store.tables import Transaction
from tailrace.mongod.store.transactions.locks import Blocked
from tailrace.mongod.store.write_unit import WriteUnit
from tailrace.pacing import set_pacer

if TYPE_CHECKING:
    from tailrace.mongod.store.store import Store

Work: TypeAlias = Callable[[WriteUnit], Any]
_NO_MORE: Final["deque[Job]"] = deque()


@dataclass(slots=True)
class Job:
    """A function to run on a `WriteUnit`, and the callback for its result or error."""

    work: Work
    done: Callable[[Any, BaseException | None], None]
    check: Callable[[], None] | None = None
    """Raises `CommandError` if the job has to end before it has changed anything"""
    seconds: float | None = None
    """How long it may compute; then it ends with `JobTakesLong`"""
    is_long: bool = False
    """Whether others go first: it continues a command, or stores a large message"""
    result: Any = None
    error: BaseException | None = None


class _Left(BaseException):
    """A job has ended early, perhaps in the middle of a change."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        self.job = job


@dataclass(frozen=True, slots=True)
class Commit:
    """The result of one LMDB commit."""

    entries: Sequence[tuple[int, bytes]]
    """New oplog entries with their cluster times, in order"""
    catalog: Catalog
    truncated_through: int
    """Cluster time of the newest entry that was removed; 0 if none was"""


class Writer:
    """The writer's thread and its queue."""

    def __init__(self, store: "Store", publish: Callable[[Commit | None, list[Job]], None]) -> None:
        self._store = store
        self._publish = publish
        self._waiting: list[Job] = []
        self._long: deque[Job] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self.is_busy = False
        """Whether it has jobs to run. Set by the caller's thread: this one may have to wait for Python's lock
        before it could say so, and those who compute there release it earlier if they know."""
        self._began: deque[int] = deque()
        """Cluster times at which the commits began that are not delivered yet, oldest first"""
        self._thread = threading.Thread(target=self._run, name="tailrace-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job; its result is published after the commit that contains it."""
        with self._wake:
            if self._stopping:
                raise CommandError(ErrorCode.InterruptedAtShutdown, "the server is shutting down")
            (self._long if job.is_long else self._waiting).append(job)
            self.is_busy = True
            self._wake.notify()

    @property
    def pending_since(self) -> int | None:
        """A cluster time before all entries that are not delivered yet; None if no commit is pending."""
        try:
            return self._began[0]
        except IndexError:
            return None

    def settle(self) -> None:
        """Note that the oldest pending commit was delivered."""
        self._began.popleft()

    def stop(self) -> None:
        """Finish the queued jobs and end the thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        was_long = True
        while True:
            with self._wake:
                self.is_busy = bool(self._waiting or self._long)
                while not (self._waiting or self._long or self._stopping):
                    # While idle, free the space of dropped collections in small steps.
                    if not self._wake.wait(timeout=0.1 if self._store.has_garbage else None):
                        break
                is_long = bool(self._long) and not (was_long and self._waiting)
                jobs = [] if is_long else self._waiting
                if not is_long:
                    self._waiting = []
                if not (jobs or is_long) and self._stopping:
                    return
            was_long = is_long
            self._commit(jobs, self._long if is_long else _NO_MORE)
            del jobs  # what they have written is freed before the next one arrives

    def _commit(self, jobs: list[Job], more: "deque[Job]") -> None:
        """Commit jobs together, and as many of ``more`` as there is time for, at least one."""
        store = self._store
        # It does not refer to the jobs: their results refer to it, and would not be freed.
        share = JobShare(lambda: bool(self._waiting))
        self._began.append(store.clock.now)
        try:
            transaction = store.tables.begin(write=True)
            state = store.begin_write(transaction, share)
            began = monotonic()
            try:
                share.is_divided = len(jobs) > 1
                for job in jobs:
                    self._run_job(job, state)
                while more and (not jobs or monotonic() < began + SHARE_SECONDS):
                    jobs.append(more.popleft())
                    share.is_divided = len(jobs) > 1
                    self._run_job(jobs[-1], state)
                store.clean_up(state)
                commit = self._finish(transaction, state)
            except BaseException:
                transaction.abort()
                raise
        except _Left as left:
            # It is undone, and only the others run again.
            self._began.pop()
            others = [job for job in jobs if job is not left.job]
            for job in others:
                job.result = job.error = None
            if others:
                self._commit(others, _NO_MORE)
            self._began.append(store.clock.now)
            self._publish(None, [left.job])
            return
        except BaseException as error:
            # The transaction is undone; running each job alone shows which one failed.
            if len(jobs) > 1:
                self._began.pop()
                for job in jobs:
                    job.result = job.error = None
                    self._commit([job], _NO_MORE)
                return
            for job in jobs:
                job.error = _translated(error)
            commit = None
        self._publish(commit, jobs)

    def _run_job(self, job: Job, state: WriteState) -> None:
        before = state.changes
        unit = WriteUnit(state)
        pacer = JobPacer(job.check, job.seconds)
        before_it = set_pacer(pacer)
        state.share.begin(pacer)
        try:
            job.result = job.work(unit)
            set_pacer(before_it)
            unit.finish()
        except (JobEnded, JobTakesLong) as ended:
            # Without its traceback, which refers to the job.
            job.error = ended.error if isinstance(ended, JobEnded) else ended.with_traceback(None)
            raise _Left(job) from None
        except (CommandError, Blocked) as error:
            if state.changes != before:
                raise
            job.error = error.with_traceback(None)
        finally:
            set_pacer(before_it)

    def _finish(self, transaction: Transaction, state: WriteState) -> Commit | None:
        if not state.changes:
            transaction.abort()
            return None
        self._store.commit(transaction, state)
        return Commit(state.entries, state.catalog, state.truncated_through)


def _translated(error: BaseException) -> BaseException:
    if isinstance(error, lmdb.MapFullError):
        return CommandError(
            ErrorCode.OutOfDiskSpace,
            "the data directory has reached its largest size; start the server with a larger --max-size",
        )
    # LMDB has no class for EFBIG, EDQUOT, and EIO, which also stands for a write that ended early.
    if isinstance(error, lmdb.DiskError | OSError) or type(error) is lmdb.Error:
        return CommandError(
            ErrorCode.OutOfDiskSpace,
            f"the data directory cannot be written: {error}; make room, and writes work again",
        )
    return error
