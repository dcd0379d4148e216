"""Server parameters: what getParameter shows and setParameter changes.

There are only those that have an effect here, or that drivers and tools read.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import Decimal128, Int64

from tailrace.bson.compare import type_name
from tailrace.bson.raw import MAX_INTERNAL_SIZE
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.stages.plan import END_OF_TRANSACTION_FLAG
from tailrace.mongod.language.aggregation.memory.budget import DEFAULT_LIMIT, DEFAULT_TOTAL
from tailrace.mongod.server.admin.log_verbosity import LogVerbosity
from tailrace.mongod.server.dispatch.api_versions import REQUIRED
from tailrace.mongod.server.emulation.release import CURRENT, Release
from tailrace.mongod.server.net.message_budget import DEFAULT_BYTES

INSERT_BATCH: Final = "internalInsertMaxBatchSize"
SNAPSHOT_WINDOW: Final = "minSnapshotHistoryWindowInSeconds"
LOG_LEVEL: Final = "logLevel"
COMPONENT_VERBOSITY: Final = "logComponentVerbosity"
SORT_MEMORY: Final = "internalQueryMaxBlockingSortMemoryUsageBytes"
TOTAL_MEMORY: Final = "tailraceMaxTotalStageMemoryBytes"
"""For the stages of all commands and open cursors together; MongoDB has no such limit."""
MESSAGE_MEMORY: Final = "tailraceMaxMessageMemoryBytes"
"""For all large messages together, from their arrival to their replies."""
MESSAGE_TIMEOUT: Final = "tailraceHalfMessageTimeoutSecs"
"""After this time without a byte, a connection with a message that has not arrived completely is closed."""
_FEATURE_FLAG: Final = "featureFlag"
_NO_CODE: Final = 0
"""Errors of these commands have only a message; seen on 6.0.27."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its default, and the values it can have."""

    name: str
    default: Any
    minimum: float = -(2**31)
    maximum: float = 2**31 - 1
    settable_at_runtime: bool = True

    def checked(self, value: Any) -> Any:
        """The value in the parameter's type; raises the error of setParameter."""
        if isinstance(self.default, bool):
            if is_string(value) and value in ("true", "false", "1", "0"):
                return value in ("true", "1")
            if isinstance(value, bool | int | float):
                return bool(value)
            raise self._wrong_type(value, "bool")
        if isinstance(self.default, int | float):
            return self._in_range(self._number(value))
        if type(value) is not type(self.default):
            raise self._wrong_type(value, type_name(self.default))
        return value

    def _number(self, value: Any) -> int | float:
        try:
            if isinstance(value, Decimal128):
                value = float(value.to_decimal())
            if is_string(value) or isinstance(value, int | float):
                number: int | float = type(self.default)(value)
                return number
        except (ValueError, OverflowError):
            reason = f"Invalid value for parameter {self.name}: {value}"
            raise CommandError(ErrorCode.BadValue, reason) from None
        raise self._wrong_type(value, type_name(self.default))

    def _in_range(self, number: int | float) -> int | float:
        if number < self.minimum:
            reason = f"Invalid value for parameter {self.name}: {number} is below {self.minimum}"
            raise CommandError(ErrorCode.BadValue, reason)
        if number > self.maximum:
            reason = f"Invalid value for parameter {self.name}: {number} is above {self.maximum}"
            raise CommandError(ErrorCode.BadValue, reason)
        return number

    def _wrong_type(self, value: Any, expected: str) -> CommandError:
        reason = f"the parameter {self.name} has to be of type {expected}, not {type_name(value)}"
        return CommandError(ErrorCode.BadValue, reason)


PARAMETERS: Final = {
    parameter.name: parameter
    for parameter in (
        Parameter("cursorTimeoutMillis", Int64(600_000)),
        Parameter("enableTimeoutOfInactiveSessionCursors", False),
        Parameter("clientCursorMonitorFrequencySecs", 4, 1),
        Parameter(REQUIRED, False),
        Parameter("writePeriodicNoops", True),
        Parameter("periodicNoopIntervalSecs", 10, 1),
        Parameter("expiredChangeStreamPreImageRemovalJobSleepSecs", 10, 1),
        Parameter("transactionLifetimeLimitSeconds", 60, 1),
        Parameter(SNAPSHOT_WINDOW, 300, 0),
        Parameter("localLogicalSessionTimeoutMinutes", 30, 1, settable_at_runtime=False),
        Parameter("enableTestCommands", True, settable_at_runtime=False),
        Parameter("ttlMonitorEnabled", True),
        Parameter("ttlMonitorSleepSecs", 60, 1),
        Parameter(END_OF_TRANSACTION_FLAG, False, settable_at_runtime=False),
        Parameter("changeStreamsEmitFromMigrate", True),
        Parameter(INSERT_BATCH, 500, 1),
        Parameter(LOG_LEVEL, 0, 0),
        Parameter("scramIterationCount", 10_000, 5000),
        Parameter("scramSHA256IterationCount", 15_000, 5000),
        Parameter("authFailedDelayMs", 0, 0, 5000),
        Parameter("enableLocalhostAuthBypass", True, settable_at_runtime=False),
        Parameter("maxSessions", 1_000_000, 1, settable_at_runtime=False),
        Parameter("allowDiskUseByDefault", True),
        Parameter(SORT_MEMORY, DEFAULT_LIMIT, 0),
        *(
            Parameter(name, DEFAULT_LIMIT, 1)
            for name in (
                "internalQueryMaxPushBytes",
                "internalQueryTopNAccumulatorBytes",
                "internalDocumentSourceDensifyMaxMemoryBytes",
            )
        ),
        *(
            Parameter(name, Int64(DEFAULT_LIMIT), 1, 2**63 - 1)
            for name in (
                "internalDocumentSourceGroupMaxMemoryBytes",
                "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
                "internalQueryFacetMaxOutputDocSizeBytes",
                "internalQueryMaxAddToSetBytes",
            )
        ),
        Parameter(
            "internalLookupStageIntermediateDocumentMaxSizeBytes",
            Int64(DEFAULT_LIMIT),
            MAX_INTERNAL_SIZE,
            2**63 - 1,
        ),
        Parameter(MESSAGE_MEMORY, Int64(DEFAULT_BYTES), 1, 2**63 - 1, settable_at_runtime=False),
        Parameter(MESSAGE_TIMEOUT, 60.0, 0.1, settable_at_runtime=False),
        Parameter(TOTAL_MEMORY, Int64(DEFAULT_TOTAL), 1, 2**63 - 1),
    )
}
"""Every parameter by its name."""


class Parameters:
    """The values on one node."""

    def __init__(self, given: Mapping[str, Any] | None = None, *, release: Release = CURRENT) -> None:
        """``given`` are values from the start of the server; raises BadValue for an unknown parameter."""
        self._values = {name: parameter.default for name, parameter in PARAMETERS.items()}
        self._read_only = {"featureCompatibilityVersion": {"version": release.series}, "maxBSONDepth": 200}
        """Further parameters that getParameter shows."""
        self.log_verbosity = LogVerbosity()
        self.on_change: list[Callable[[str], None]] = []
        """Called with a parameter's name after it was set."""
        for name, value in (given or {}).items():
            parameter = PARAMETERS.get(name)
            if parameter is None:
                raise CommandError(ErrorCode.InvalidOptions, f"there is no server parameter {name}")
            self._values[name] = parameter.checked(value)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def get(self, name: str) -> Any:
        """A parameter as getParameter shows it; None if there is no such parameter."""
        if name == COMPONENT_VERBOSITY:
            return self.log_verbosity.to_document()
        if name == LOG_LEVEL:
            return self.log_verbosity.default
        value = self._read_only.get(name, self._values.get(name))
        return {"value": value} if name.startswith(_FEATURE_FLAG) and value is not None else value

    def all(self) -> list[str]:
        """The names of all parameters, sorted."""
        return sorted({*self._values, *self._read_only, COMPONENT_VERBOSITY})

    def check_name(self, name: str) -> None:
        """Refuse a parameter that is unknown, or that cannot be set while the server runs."""
        parameter = PARAMETERS.get(name)
        if parameter is None and name != COMPONENT_VERBOSITY:
            reason = f"attempted to set unrecognized parameter [{name}], use help:true to see options "
            raise CommandError(_NO_CODE, reason)
        if parameter is not None and not parameter.settable_at_runtime:
            raise CommandError(_NO_CODE, f"not allowed to change [{name}] at runtime")

    def check(self, name: str, value: Any) -> Any:
        """The value in the parameter's type; raises if it cannot be set while the server runs."""
        self.check_name(name)
        if name == COMPONENT_VERBOSITY:
            return self.log_verbosity.check(value)
        parameter = PARAMETERS[name]
        if is_string(value) and not isinstance(parameter.default, bool | str):
            reason = f"Failed validating {name}: Unable to coerce value to integral type"
            raise CommandError(ErrorCode.BadValue, reason)
        return parameter.checked(value)

    def set(self, name: str, value: Any) -> Any:
        """Change a parameter of the running server; returns its old value."""
        checked = self.check(name, value)
        old = self.get(name)
        if name == COMPONENT_VERBOSITY:
            self.log_verbosity.set(checked)
        elif name == LOG_LEVEL:
            self.log_verbosity.set({"": checked})
        else:
            self._values[name] = checked
        for listener in self.on_change:
            listener(name)
        return old
