"""Run a command's changes: as a job of the store's writer, or in the open transaction."""

from collections.abc import Callable
from typing import TypeVar

from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.emulation.write_fault import WriteFault
from tailrace.mongod.store.unit_of_work import UnitOfWork
from tailrace.mongod.store.write_unit import WriteUnit

T = TypeVar("T")


async def run_write(context: MemberContext, work: Callable[[UnitOfWork], T]) -> T:
    """Run the statements of one command; when this returns outside of a transaction, they are on disk.

    ``work`` may be run more than once, each time on a new unit: its only effects must be on the unit and its
    result.
    """
    if context.transaction is not None:
        return await context.transaction.unit.write(work)
    context.changes_catalog = context.entry.name == "create"
    fault = WriteFault.of(context)
    if fault is not None:
        work = fault.around(work)
    store = context.node.store
    return await store.write(work, deadline=context.deadline, waiting=context.waiting)


async def run_catalog_change(context: MemberContext, work: Callable[[WriteUnit], T]) -> T:
    """Run a change of the catalog; when this returns it is on disk."""
    context.changes_catalog = True
    return await context.node.store.write(work, deadline=context.deadline, waiting=context.waiting)
