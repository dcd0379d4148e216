"""Failures that only the command line tells apart."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.errors import CommandError, TailraceError

STANDARD_OUTPUT: Final = "standard output"


class StreamError(TailraceError):
    """The stream was opened and ended with an error, after the events before it were written.

    The same `CommandError` raised while a stream is opened means that the command line was wrong.
    """

    def __init__(self, error: CommandError) -> None:
        super().__init__(str(error))


@contextmanager
def writing_to(name: str) -> Iterator[None]:
    """Names the output in the errors of writing to it; the system does not."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
