"""Run a command's changes: as a job of the store's writer, or in the open transaction."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import TypeVar

from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import Context, MemberContext
from tailrace.mongod.server.emulation.write_fault import WriteFault
from tailrace.mongod.server.writes.evaluations import Evaluations, RehearsalTooLarge
from tailrace.mongod.store.job_pace import WritePace
from tailrace.mongod.store.store import Store
from tailrace.mongod.store.transactions.rehearsal import RehearsalUnit
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

T = TypeVar("T")


async def run_write(context: MemberContext, work: Callable[[UnitOfWork], T], *, rehearsed: bool = False) -> T:
    """Run the statements of one command; when this returns outside of a transaction, they are on disk.

    ``work`` may be run more than once, each time on a new unit: its only effects must be on the unit and its
    result. With ``rehearsed``, it is run without effect first if it computes for long.
    """
    store = context.node.store
    pace = rehearsed_pace(context, store, work) if rehearsed else WritePace(context.check_deadline)
    if context.transaction is not None:
        return await context.transaction.unit.write(work, pace)
    context.changes_catalog = context.entry.name == "create"
    fault = WriteFault.of(context)
    if fault is not None:
        work = fault.around(work)
    return await store.write(work, deadline=context.deadline, waiting=context.waiting, pace=pace)


def rehearsed_pace(context: Context, store: Store, work: Callable[[UnitOfWork], T]) -> WritePace:
    """How statements run that compute with documents: in the writer for a short time, else rehearsed.

    What ``work`` gets from outside has to exist until it was run for the last time.
    """
    context.evaluations = None
    return WritePace(context.check_deadline, partial(rehearse, context, store, work), context.computing)


def rehearse(context: Context, store: Store, work: Callable[[RehearsalUnit], object]) -> bool:
    """Compute what the statements need; returns whether that is everything."""
    evaluations = context.evaluations = context.evaluations or Evaluations()
    evaluations.is_rehearsing = True
    try:
        transaction = context.transaction
        with store.snapshot() if transaction is None else nullcontext(transaction.reader) as reader:
            in_transaction = transaction is not None
            work(RehearsalUnit(store, reader, evaluations.spend, in_transaction=in_transaction))
    except CommandError as error:
        # The writer meets it again, and reports it. The evaluations keep it, without its traceback.
        error.with_traceback(None)
    except RehearsalTooLarge:
        return False
    finally:
        evaluations.is_rehearsing = False
    return True


async def run_catalog_change(context: MemberContext, work: Callable[[WriteUnit], T]) -> T:
    """Run a change of the catalog; when this returns it is on disk."""
    context.changes_catalog = True
    pace = WritePace(context.check_deadline)
    return await context.node.store.write(work, deadline=context.deadline, waiting=context.waiting, pace=pace)
