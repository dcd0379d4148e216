"""Ask the source for something that commands wait for, without delaying others.

A command that asks leaves its greenlet until the answer is there (`net/turns.py`). While the source is away
it is asked again and again, so a stream waits through an election, and ends only with its client.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError, TailraceError
from tailrace.mongod.server.net.turns import turns_of
from tailrace.pipeline.failure import failure_of

T = TypeVar("T")

_THREADS: Final = 8
_PAUSE: Final = 0.2


class Questions:
    """Equal questions that are asked while one of them waits for its answer get the same one."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "tailrace-source")
        self._asked: dict[Hashable, Future[Any]] = {}

    def ask(self, question: Callable[..., T], *arguments: Hashable) -> T:
        """Return the answer to ``question(*arguments)``; raises `CommandError` if it never will be there."""
        return self.answer(lambda: self._answer(question, arguments))

    def answer(self, asked: Callable[[], Future[T]]) -> T:
        """Wait for an answer. ``asked`` is called again as long as the source is away."""
        turns = turns_of(asyncio.get_running_loop())
        while True:
            try:
                return turns.wait_for(asked())
            except TailraceError as error:
                if not failure_of(error).is_source_away:
                    raise _as_command_error(error) from None
            turns.pause(_PAUSE)

    def run(self, work: Callable[[], None]) -> None:
        """Run something in another thread that asks the source."""
        self._threads.submit(work)

    def _answer(self, question: Callable[..., T], arguments: tuple[Hashable, ...]) -> Future[T]:
        key = (question, arguments)
        answer = self._asked.get(key)
        if answer is None:
            answer = self._asked[key] = self._threads.submit(question, *arguments)
            # Before anybody gets the answer: who asks afterwards gets a new one.
            answer.add_done_callback(lambda _: self._asked.pop(key, None))
        return cast("Future[T]", answer)

    def close(self) -> None:
        """Wait for no more answers."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _as_command_error(error: TailraceError) -> CommandError:
    return error if isinstance(error, CommandError) else CommandError(ErrorCode.OperationFailed, str(error))
