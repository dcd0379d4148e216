"""Failures that only the command line tells apart."""

from tailrace.errors import CommandError, TailraceError


class StreamError(TailraceError):
    """The stream was opened and ended with an error, after the events before it were written.

    The same `CommandError` raised while a stream is opened means that the command line was wrong.
    """

    def __init__(self, error: CommandError) -> None:
        super().__init__(str(error))
