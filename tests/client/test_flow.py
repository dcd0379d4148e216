"""Flows: the same generator with blocking calls and with awaitables."""

import asyncio
from functools import partial
from typing import Any

import pytest

from tailrace.client.flow import Flow, run, run_async


def read_all(read: Any, log: list[str]) -> Flow[list[int]]:
    found: list[int] = []
    for number in range(4):
        try:
            found.append((yield partial(read, number)))
        except ValueError as error:
            log.append(str(error))
    return found


def odd(number: int) -> int:
    if number % 2 == 0:
        raise ValueError(f"{number} is even")
    return number


async def odd_async(number: int) -> int:
    await asyncio.sleep(0)
    return odd(number)


def test_a_flow_gets_results_and_exceptions() -> None:
    blocking: list[str] = []
    awaited: list[str] = []
    assert run(read_all(odd, blocking)) == [1, 3]
    assert asyncio.run(run_async(read_all(odd_async, awaited))) == [1, 3]
    assert blocking == awaited == ["0 is even", "2 is even"]


def test_an_exception_that_the_flow_does_not_handle_is_raised() -> None:
    def fail(_: int) -> int:
        raise KeyError("no such call")

    with pytest.raises(KeyError, match="no such call"):
        run(read_all(fail, []))


def test_a_cancelled_flow_can_clean_up() -> None:
    log: list[str] = []

    def waiting() -> Flow[None]:
        try:
            yield partial(asyncio.sleep, 60)
        except asyncio.CancelledError:
            yield partial(asyncio.sleep, 0)
            log.append("cleaned up")
            raise

    async def scenario() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_async(waiting()), 0.01)

    asyncio.run(scenario())
    assert log == ["cleaned up"]
