"""Apply the fail point `failCommand` to a command."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.emulation.fail_points import CODES_WITH_INFO, FAIL_COMMAND, code_and_message

if TYPE_CHECKING:
    from tailrace.mongod.server.dispatch.context import Context

_ACTIONS: Final = ("closeConnection", "blockConnection", "writeConcernError", "errorCode")
_DEFAULT_MESSAGE: Final = "Failing command via 'failCommand' failpoint"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(is_string, value))


_CHECKS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "failCommands": (_is_texts, "an array of strings"),
    "failCommandsExcept": (_is_texts, "an array of strings"),
    "errorLabels": (_is_texts, "an array of strings"),
    "errorCode": (_is_number, "a number"),
    "blockTimeMS": (_is_number, "a number"),
    "errorMsg": (is_string, "a string"),
    "appName": (is_string, "a string"),
    "threadName": (is_string, "a string"),
    "namespace": (is_string, "a string"),
    "errorExtraInfo": (lambda value: isinstance(value, dict), "an object"),
    "writeConcernError": (lambda value: isinstance(value, dict), "an object"),
}


def check_data(data: Mapping[str, Any]) -> None:
    """Refuse data of wrong types when the fail point is configured, not when it first acts."""
    for name, (is_right, expected) in _CHECKS.items():
        if name in data and not is_right(data[name]):
            reason = (
                f"the field '{name}' of failCommand's data must be {expected}, not {type_name(data[name])}"
            )
            raise CommandError(ErrorCode.TypeMismatch, reason)


class CloseConnection(Exception):  # noqa: N818 - a decision, not an error: the client gets no reply
    """Raised to close the connection instead of sending a reply."""


class InjectedError(CommandError):
    """An error that a test requested; if it names labels, exactly these are attached."""

    fixed_labels: list[str] | None = None


def injected_error(code: int, message: str, info: Mapping[str, Any] | None = None) -> InjectedError:
    """The error with a code; ``info`` are the further fields that the errors of some codes need."""
    if info is None or code not in CODES_WITH_INFO:
        return InjectedError(*code_and_message(code, message))
    error = InjectedError(code, message)
    error.details = info
    return error


class FailCommand:
    """The fail point, acting on one command."""

    def __init__(self, data: Mapping[str, Any], context: "Context") -> None:
        self._data = data
        self._context = context

    @classmethod
    def of(cls, context: "Context") -> "FailCommand | None":
        """The fail point for this command; None if it is off or does not match."""
        point = context.node.fail_points[FAIL_COMMAND]
        data = point.data
        if point.mode == "off" or not _matches(data, context) or not point.enter():
            return None
        return cls(data, context)

    @property
    def labels(self) -> list[str] | None:
        """The labels that were requested; None leaves them to the usual rules."""
        found = self._data.get("errorLabels")
        return None if found is None else list(found)

    @property
    def write_concern_error(self) -> dict[str, Any] | None:
        """The `writeConcernError` to append to the reply, if one was requested."""
        found = self._data.get("writeConcernError")
        return None if found is None else dict(found)

    async def before(self) -> None:
        """Wait, close the connection or raise, as configured."""
        if self._data.get("blockConnection"):
            await self._block()
        if self._data.get("closeConnection"):
            raise CloseConnection
        code = self._data.get("errorCode")
        if code:
            error = injected_error(
                int(code), self._data.get("errorMsg", _DEFAULT_MESSAGE), self._data.get("errorExtraInfo")
            )
            error.fixed_labels = self.labels
            raise error

    async def _block(self) -> None:
        milliseconds = self._data.get("blockTimeMS")
        if milliseconds is not None:
            await asyncio.sleep(milliseconds / 1000)
            return
        # Without a time the command waits until the fail point is configured again.
        point = self._context.node.fail_points[FAIL_COMMAND]
        generation = point.generation
        while point.generation == generation:
            await point.wait()


def _matches(data: Mapping[str, Any], context: "Context") -> bool:
    entry = context.entry
    if entry.name == "configureFailPoint" or not any(data.get(action) for action in _ACTIONS):
        return False
    if not _names_command(data, _names(context)):
        return False
    if "appName" in data and data["appName"] != _app_name(context):
        return False
    if "threadName" in data and data["threadName"] != context.client.name:
        return False
    return "namespace" not in data or data["namespace"] == context.namespace


def _names(context: "Context") -> set[str]:
    """The names by which a fail point can name the command; `hello` and `isMaster` are two commands here."""
    names = {context.entry.name, *context.entry.aliases}
    if context.entry.name == "hello":
        names = {"hello"} if context.name == "hello" else names - {"hello"}
    return names


def _app_name(context: "Context") -> object:
    """The name of the client's application, which its first hello brings."""
    if context.client.metadata is None and context.entry.name == "hello":
        metadata = context.command.get("client")
        application = metadata.get("application") if isinstance(metadata, Mapping) else None
        return application.get("name") if isinstance(application, Mapping) else None
    return context.client.app_name


def _names_command(data: Mapping[str, Any], names: set[str]) -> bool:
    if data.get("failAllCommands"):
        return True
    if "failCommandsExcept" in data:
        return names.isdisjoint(data["failCommandsExcept"])
    return not names.isdisjoint(data.get("failCommands", ()))
