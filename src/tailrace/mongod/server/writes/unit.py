"""Run a command's changes: as a job of the store's writer, or in the open transaction."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.write_fault import WriteFault
from tailrace.mongod.server.writes.evaluations import Evaluations, RehearsalTooLarge
from tailrace.mongod.store.store import WritePace
from tailrace.mongod.store.transactions.rehearsal import RehearsalUnit
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

T = TypeVar("T")


async def run_write(context: MemberContext, work: Callable[[UnitOfWork], T], *, rehearsed: bool = False) -> T:
    """Run the statements of one command; when this returns outside of a transaction, they are on disk.

    ``work`` may be run more than once, each time on a new unit: its only effects must be on the unit and its
    result. With ``rehearsed``, it is run without effect first if it computes for long.
    """
    rehearse = partial(_rehearse, context, work) if rehearsed else None
    pace = WritePace(context.check_deadline, rehearse, context.computing)
    if context.transaction is not None:
        return await context.transaction.unit.write(work, pace)
    context.changes_catalog = context.entry.name == "create"
    fault = WriteFault.of(context)
    if fault is not None:
        work = fault.around(work)
    store = context.node.store
    return await store.write(work, deadline=context.deadline, waiting=context.waiting, pace=pace)


def _rehearse(context: MemberContext, work: Callable[[UnitOfWork], T]) -> bool:
    """Compute what the statements need; returns whether that is everything."""
    evaluations = context.evaluations = context.evaluations or Evaluations()
    evaluations.is_rehearsing = True
    try:
        with context.reader() as reader:
            in_transaction = context.transaction is not None
            work(RehearsalUnit(context.node.store, reader, evaluations.spend, in_transaction=in_transaction))
    except CommandError:
        pass  # the writer meets it again, and reports it
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
