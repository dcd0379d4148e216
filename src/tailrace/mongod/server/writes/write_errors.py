"""The `writeErrors` of a reply."""

from collections.abc import Iterator
from typing import Any, Final

from tailrace.errors import CommandError

_MAX_MESSAGES: Final = 1 << 20
"""Characters of messages in one reply; later errors have no message, so that the reply stays small."""


class WriteErrors:
    """Statements that failed, in the order of the batch."""

    def __init__(self) -> None:
        self._found: list[tuple[int, CommandError]] = []

    def copy(self) -> "WriteErrors":
        copied = WriteErrors()
        copied._found = list(self._found)
        return copied

    def add(self, index: int, error: CommandError) -> None:
        """Add the error of a statement."""
        self._found.append((index, error))

    def documents(self) -> Iterator[dict[str, Any]]:
        left = _MAX_MESSAGES
        for index, error in self._found:
            message = error.message if left > 0 else ""
            left -= len(message)
            yield {"index": index, "code": error.code, "errmsg": message, **error.details}

    def into(self, reply: dict[str, Any]) -> dict[str, Any]:
        """The reply with `writeErrors`, if there are any."""
        if self._found:
            reply["writeErrors"] = list(self.documents())
        return reply
