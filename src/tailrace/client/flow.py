"""Write a sequence of blocking calls once, and run it with or without asyncio.

A flow is a generator. It yields a call to make and receives what the call returned, or the exception that it
raised. With asyncio the call returns an awaitable, which the flow never sees:

>>> from functools import partial
>>> def read_twice(read):
...     first = yield partial(read, 1)
...     second = yield partial(read, 2)
...     return first + second
>>> run(read_twice(lambda number: number * 10))
30
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias, TypeVar

R = TypeVar("R")

Call: TypeAlias = Callable[[], Any]
Flow: TypeAlias = Generator[Call, Any, R]


def run(flow: Flow[R]) -> R:
    """Make the calls of a flow; return what the flow returns."""
    try:
        call = next(flow)
        while True:
            try:
                answer = call()
            except BaseException as error:
                call = flow.throw(error)
            else:
                call = flow.send(answer)
    except StopIteration as end:
        result: R = end.value
        return result


async def run_async(flow: Flow[R]) -> R:
    """Make the calls of a flow and await what they return; return what the flow returns."""
    try:
        call = next(flow)
        while True:
            try:
                awaitable: Awaitable[Any] = call()
                answer = await awaitable
            except BaseException as error:
                call = flow.throw(error)
            else:
                call = flow.send(answer)
    except StopIteration as end:
        result: R = end.value
        return result
