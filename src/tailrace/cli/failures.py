"""Errors of the command line's output and of streams that were already open."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tailrace.errors import CommandError, TailraceError

STANDARD_OUTPUT: Final = "standard output"


class StreamError(TailraceError):
    """An open stream ended with an error; the events before it were written.

    A `CommandError` raised while a stream is opened means instead that the command line was wrong.
    """

    def __init__(self, error: CommandError) -> None:
        super().__init__(str(error))


@contextmanager
def writing_to(name: str) -> Iterator[None]:
    """Add the name of the output to errors of writing to it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, name) from None
