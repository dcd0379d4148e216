"""What the fail point `failCommand` does to one command."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tailrace.errors import CommandError

if TYPE_CHECKING:
    from tailrace.server.context import Context


class CloseConnection(Exception):  # noqa: N818 - a decision, not an error: the client gets no reply
    """The connection is to be closed instead of a reply."""


class InjectedError(CommandError):
    """An error that a test asked for; if it named labels, exactly these are attached."""

    fixed_labels: list[str] | None = None


class FailCommand:
    """One hit of the fail point."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    @classmethod
    def of(cls, context: "Context") -> "FailCommand | None":
        """What happens to this command; None if the fail point is off or means others."""
        data = context.server.fail_points.command_failure(context)
        return None if data is None else cls(data)

    @property
    def write_concern_error(self) -> dict[str, Any] | None:
        """What is appended to the reply of a command that ran."""
        found = self._data.get("writeConcernError")
        return dict(found) if isinstance(found, dict) and not self._data.get("errorCode") else None

    @property
    def labels(self) -> list[str] | None:
        """The labels that were asked for; None leaves them to the usual rules."""
        found = self._data.get("errorLabels")
        return None if found is None else [str(label) for label in found]

    async def before(self, context: "Context") -> None:
        """Wait, close the connection or raise, as the fail point says."""
        data = self._data
        if data.get("blockConnection"):
            milliseconds = data.get("blockTimeMS")
            await context.server.fail_points.block(None if milliseconds is None else int(milliseconds))
        if data.get("closeConnection"):
            raise CloseConnection
        code = data.get("errorCode")
        if code:
            message = data.get("errorMsg", "Failing command via 'failCommand' failpoint")
            error = InjectedError(int(code), str(message))
            error.fixed_labels = self.labels
            error.details = data.get("errorExtraInfo", {})
            raise error
