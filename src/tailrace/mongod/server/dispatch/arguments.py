"""Read the fields of a command one by one, with MongoDB's type checks.

A field is read once, by the type it must have; null counts as not given. `finish` then refuses fields that
were not read, so a misspelt option is an error and never ignored.

>>> arguments = Arguments("count", {"count": "orders", "limit": 5.0, "$db": "shop"})
>>> arguments.text("count"), arguments.integer("limit", 0), arguments.boolean("singleBatch", False)
('orders', 5, False)
>>> arguments.finish()
"""

import math
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeVar, overload

from bson import Decimal128, Timestamp

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

Default = TypeVar("Default")


class Required(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "REQUIRED"


REQUIRED: Final = Required.REQUIRED
"""In place of a default: the field must be given."""

GENERIC_ARGUMENTS: Final = frozenset(
    {
        "$db", "$readPreference", "$clusterTime", "$client", "$audit", "$configServerState", "$configTime",
        "$topologyTime", "$oplogQueryData", "$queryOptions", "$replData", "$traceCtx", "apiDeprecationErrors",
        "apiStrict", "apiVersion", "autocommit", "clientOperationKey", "comment", "coordinator",
        "databaseVersion", "help", "lsid", "maxTimeMS", "maxTimeMSOpOnly", "mayBypassWriteBlocking",
        "readConcern", "requestGossipRoutingCache", "shardVersion", "startOrContinueTransaction",
        "startTransaction", "traceCtx", "txnNumber", "txnRetryCounter", "txnUUID", "versionContext",
        "writeConcern",
    }
)  # fmt: skip
"""Fields that any command may have; the dispatcher reads them."""

_NUMBERS: Final = "[long, int, decimal, double]"
_BOOLS: Final = "[bool, long, int, decimal, double]"
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


class Arguments:
    """One document's fields; ``name`` is the command's name, or the path of an embedded document."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self._name = name
        self._document = document
        self._read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the field is given; asking does not count as reading."""
        return self._document.get(name) is not None

    @overload
    def text(self, name: str, default: Literal[Required.REQUIRED] = ...) -> str: ...
    @overload
    def text(self, name: str, default: Default) -> str | Default: ...
    def text(self, name: str, default: Any = REQUIRED) -> Any:
        value = self.value(name, default)
        if value is not default and type(value) is not str:  # JavaScript is a `str`, too
            raise self.wrong_type(name, value, "string")
        return value

    @overload
    def boolean(
        self, name: str, default: Literal[Required.REQUIRED] = ..., *, strict: bool = ...
    ) -> bool: ...
    @overload
    def boolean(self, name: str, default: Default, *, strict: bool = ...) -> bool | Default: ...
    def boolean(self, name: str, default: Any = REQUIRED, *, strict: bool = False) -> Any:
        """True or false; a number counts as true unless it is zero. With ``strict`` numbers are refused."""
        value = self.value(name, default)
        if value is default or isinstance(value, bool):
            return value
        if strict:
            raise self.wrong_type(name, value, "bool")
        number = _number(value)
        if number is None:
            raise self.wrong_type(name, value, _BOOLS)
        return number != 0

    @overload
    def integer(
        self,
        name: str,
        default: Literal[Required.REQUIRED] = ...,
        *,
        minimum: int = ...,
        maximum: int = ...,
    ) -> int: ...
    @overload
    def integer(
        self, name: str, default: Default, *, minimum: int = ..., maximum: int = ...
    ) -> int | Default: ...
    def integer(
        self, name: str, default: Any = REQUIRED, *, minimum: int = _LONG_MIN, maximum: int = _LONG_MAX
    ) -> Any:
        """A whole number; a fraction is cut off, as the server's conversion does."""
        value = self.value(name, default)
        if value is default:
            return value
        number = _number(value)
        if number is None:
            raise self.wrong_type(name, value, _NUMBERS)
        whole = _whole(number)
        if whole < minimum:
            reason = f"BSON field '{name}' value must be >= {minimum}, actual value '{whole}'"
            raise CommandError(ErrorCode.BadValue, reason)
        if whole > maximum:
            reason = f"BSON field '{name}' value must be <= {maximum}, actual value '{whole}'"
            raise CommandError(ErrorCode.BadValue, reason)
        return whole

    @overload
    def number(self, name: str, default: Literal[Required.REQUIRED] = ...) -> int | float: ...
    @overload
    def number(self, name: str, default: Default) -> int | float | Default: ...
    def number(self, name: str, default: Any = REQUIRED) -> Any:
        """A number of any type."""
        value = self.value(name, default)
        if value is default:
            return value
        number = _number(value)
        if number is None:
            raise self.wrong_type(name, value, _NUMBERS)
        return number

    @overload
    def document(self, name: str, default: Literal[Required.REQUIRED] = ...) -> dict[str, Any]: ...
    @overload
    def document(self, name: str, default: Default) -> dict[str, Any] | Default: ...
    def document(self, name: str, default: Any = REQUIRED) -> Any:
        return self._typed(name, default, dict, "object")

    @overload
    def array(self, name: str, default: Literal[Required.REQUIRED] = ...) -> list[Any]: ...
    @overload
    def array(self, name: str, default: Default) -> list[Any] | Default: ...
    def array(self, name: str, default: Any = REQUIRED) -> Any:
        return self._typed(name, default, list, "array")

    @overload
    def timestamp(self, name: str, default: Literal[Required.REQUIRED] = ...) -> Timestamp: ...
    @overload
    def timestamp(self, name: str, default: Default) -> Timestamp | Default: ...
    def timestamp(self, name: str, default: Any = REQUIRED) -> Any:
        return self._typed(name, default, Timestamp, "timestamp")

    def _typed(self, name: str, default: Any, kind: type, shown: str) -> Any:
        value = self.value(name, default)
        if value is not default and not isinstance(value, kind):
            raise self.wrong_type(name, value, shown)
        return value

    def nested(self, name: str) -> "Arguments | None":
        """The fields of an embedded document, to be read and finished in the same way; None if not given."""
        document = self.document(name, None)
        return None if document is None else Arguments(f"{self._name}.{name}", document)

    def value(self, name: str, default: Any = REQUIRED) -> Any:
        self._read.add(name)
        value = self._document.get(name)
        if value is not None:
            return value
        if default is REQUIRED:
            reason = f"BSON field '{self._name}.{name}' is missing but a required field"
            raise CommandError(ErrorCode.IDLFailedToParse, reason)
        return default

    def ignore(self, *names: str) -> None:
        """Allow fields that have no effect here."""
        self._read.update(names)

    def finish(self) -> None:
        """Refuse fields that were not read, except the command's own name and `GENERIC_ARGUMENTS`."""
        for name in self._document:
            if name not in self._read and name not in GENERIC_ARGUMENTS and name != self._name:
                reason = f"BSON field '{self._name}.{name}' is an unknown field."
                raise CommandError(ErrorCode.IDLUnknownField, reason)

    def wrong_type(self, name: str, value: Any, expected: str) -> CommandError:
        """The error for a value of another type than ``expected``: one name, or several in brackets."""
        types = "types" if expected.startswith("[") else "type"
        found = type_name(value)
        return CommandError(
            ErrorCode.TypeMismatch,
            f"BSON field '{self._name}.{name}' is the wrong type '{found}', expected {types} '{expected}'",
        )


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal128):
        decimal = value.to_decimal()
        return math.nan if decimal.is_nan() else float(decimal)  # a signalling NaN has no float
    return value if isinstance(value, int | float) else None


def _whole(number: int | float) -> int:
    if isinstance(number, int):
        return number
    if math.isnan(number):
        return 0
    # A double outside of the range of a long becomes the nearest end of that range.
    if number >= _LONG_MAX:
        return _LONG_MAX
    return _LONG_MIN if number <= _LONG_MIN else int(number)
