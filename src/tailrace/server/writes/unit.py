"""What write statements run on: a job of the store's writer, or the open transaction of their session."""

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from tailrace.server.context import Context
from tailrace.store.write_unit import WriteUnit

WritingUnit: TypeAlias = WriteUnit
T = TypeVar("T")


async def run_write(context: Context, work: Callable[[WritingUnit], T]) -> T:
    """Run the statements of one command; when this returns outside of a transaction, they are on disk.

    ``work`` may be run more than once, each time on an untouched unit: it must keep its effects to the unit
    and to what it returns.
    """
    return await context.server.store.write(work, deadline=context.deadline)
