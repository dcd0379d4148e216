"""Look-ups of all streams, asked of the source together.

While a request is on its way, further questions are collected, and the next request has all of them. So a
stream that catches up waits once for many updates, and many streams that show the same update ask once.
"""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Lock
from typing import Final, Generic, TypeVar

from tailrace.errors import AccessError, TailraceError
from tailrace.mongod.front.questions import Questions
from tailrace.pipeline.failure import failure_of

Q = TypeVar("Q", bound=tuple[Hashable, ...])
Answer = Future[bytes | None]

_TOGETHER: Final = 256
"""Questions of one request."""
_REQUESTS: Final = 2
"""Requests at the same time: one that takes long does not delay all others."""


class BatchedQuestions(Generic[Q]):
    """Questions of one kind. An answer is at least as new as the time at which it was asked for."""

    def __init__(
        self,
        questions: Questions,
        time: Callable[[], int],
        ask: Callable[[int, Sequence[Q]], Mapping[Q, bytes]],
        group_of: Callable[[Q], Hashable] = lambda _: None,
    ) -> None:
        """``ask`` returns the answers that there are, as of a cluster time or later.

        It runs in other threads, with questions of one group. ``time`` is the newest time that streams show.
        """
        self._questions = questions
        self._time = time
        self._ask = ask
        self._group_of = group_of
        self._lock = Lock()
        self._waiting: dict[Hashable, dict[Q, Answer]] = {}
        self._sent: dict[Q, tuple[int, Answer]] = {}
        self._requests = 0

    def find(self, *question: Hashable) -> bytes | None:
        """Return the answer to one question, None if there is nothing; raises as `Questions.answer`."""
        return self.expecting([question])(*question)  # type: ignore[list-item]

    def expecting(self, wanted: Collection[Q]) -> Callable[..., bytes | None]:
        """Ask some questions; return what waits for the answer to each of them."""
        answers = dict(zip(wanted, self._asked(wanted), strict=True))

        def find(*question: Hashable) -> bytes | None:
            return self._questions.answer(lambda: answer_to(question))  # type: ignore[arg-type]

        def answer_to(question: Q) -> Answer:
            answer = answers[question]
            if answer.done() and answer.exception() is not None:  # the source was away
                (answer,) = self._asked([question])
                answers[question] = answer
            return answer

        return find

    def _asked(self, wanted: Collection[Q]) -> list[Answer]:
        with self._lock:
            time = self._time()
            answers = [self._answer(question, time) for question in wanted]
            if self._waiting and self._requests < _REQUESTS:
                self._requests += 1
                self._questions.run(self._send)
        return answers

    def _answer(self, question: Q, time: int) -> Answer:
        sent = self._sent.get(question)
        if sent is not None and sent[0] >= time:
            return sent[1]
        group = self._waiting.setdefault(self._group_of(question), {})
        return group.setdefault(question, Future())

    # -- in other threads -----------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send requests as long as there are questions."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._requests -= 1
                    return
                time = self._time()
                asked = self._next()
                self._sent |= {question: (time, answer) for question, answer in asked.items()}
            outcomes = self._outcomes(time, list(asked))
            with self._lock:
                for question, answer in asked.items():
                    if self._sent.get(question) == (time, answer):
                        del self._sent[question]
            for question, answer in asked.items():
                outcome = outcomes[question]
                if isinstance(outcome, BaseException):
                    answer.set_exception(outcome)
                else:
                    answer.set_result(outcome)

    def _next(self) -> dict[Q, Answer]:
        """The questions that wait for longest, of one group."""
        group = next(iter(self._waiting))
        waiting = self._waiting.pop(group)
        asked = dict(islice(waiting.items(), _TOGETHER))
        rest = dict(islice(waiting.items(), _TOGETHER, None))
        if rest:
            self._waiting[group] = rest
        return asked

    def _outcomes(self, time: int, asked: Sequence[Q]) -> dict[Q, bytes | BaseException | None]:
        try:
            found = self._ask(time, asked)
        except TailraceError as error:
            if len(asked) == 1 or isinstance(error, AccessError) or failure_of(error).is_source_away:
                return dict.fromkeys(asked, error)
            # Each stream gets its own answer, or its own error.
            return {question: self._outcomes(time, [question])[question] for question in asked}
        except BaseException as error:
            return dict.fromkeys(asked, error)
        return {question: found.get(question) for question in asked}
