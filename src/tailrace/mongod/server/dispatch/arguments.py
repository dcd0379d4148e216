"""Read the fields of a command one by one, with MongoDB's type checks.

A field is read once, by the type it must have; null counts as not given. `finish` then refuses fields that
were not read, so a misspelt option is an error and never ignored.

>>> arguments = Arguments("count", {"count": "orders", "limit": 5.0, "$db": "shop"})
>>> arguments.text("count"), arguments.integer("limit", 0), arguments.boolean("singleBatch", False)
('orders', 5, False)
>>> arguments.finish()
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeVar, overload

from bson import Timestamp

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.fields import Fields, is_generic
from tailrace.mongod.server.dispatch.kinds import (
    LONG_MAX,
    LONG_MIN,
    as_number,
    as_whole,
    is_given,
    is_true,
    out_of_range_code,
    wrong_type,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import CURRENT, Release

Default = TypeVar("Default")


class Required(Enum):
    """The type of `REQUIRED`."""

    REQUIRED = "REQUIRED"


NOT_GIVEN: Final = object()
"""In place of a value: the document does not have the field, not even as null."""
REQUIRED: Final = Required.REQUIRED
"""In place of a default: the field must be given."""

_NUMBERS: Final = "[long, int, decimal, double]"
_BOOLS: Final = "[bool, long, int, decimal, double]"


class Arguments:
    """One document's fields; ``name`` is the command's name, or the path of an embedded document."""

    def __init__(
        self,
        name: str,
        document: Mapping[str, Any],
        release: Release = CURRENT,
        *,
        is_declared: bool = False,
    ) -> None:
        """With ``is_declared`` the document was checked by `Fields`, and `finish` has nothing to do."""
        self._name = name
        self._document = document
        self._release = release
        self._is_declared = is_declared
        self._read: set[str] = set()

    @classmethod
    def checked(cls, name: str, document: Mapping[str, Any], fields: Fields, release: Release) -> "Arguments":
        """The fields of a document after the check of its declaration."""
        fields.check(name, document, release)
        return cls(name, document, release, is_declared=True)

    @property
    def release(self) -> Release:
        """The release whose codes are used."""
        return self._release

    def has(self, name: str) -> bool:
        """Whether the field is given; asking does not count as reading."""
        return is_given(self._document.get(name))

    def is_null(self, name: str) -> bool:
        """Whether the field is given as null, which some fields refuse."""
        return name in self._document and self._document[name] is None

    def refuse_null(self, name: str, expected: str) -> None:
        """Refuse null for a field that may have one of several types."""
        if self.is_null(name):
            raise self.wrong_type(name, None, expected)

    def documents(self, name: str) -> list[Any] | None:
        """An array of documents; None if it is not given."""
        if self.is_null(name):
            raise CommandError(10065, f"invalid parameter: expected an object ({name})")
        items = self.array(name, None)
        for position, item in enumerate(items or ()):
            if not isinstance(item, Mapping):
                raise self.wrong_type(f"{name}.{position}", item, "object")
        return items

    @overload
    def text(self, name: str, default: Literal[Required.REQUIRED] = ...) -> str: ...
    @overload
    def text(self, name: str, default: Default) -> str | Default: ...
    def text(self, name: str, default: Any = REQUIRED) -> Any:
        value = self.value(name, default)
        if value is not default and not is_string(value):
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
        number = as_number(value)
        if number is None:
            raise self.wrong_type(name, value, _BOOLS)
        return number != 0

    def truth(self, name: str) -> bool:
        """Whether a field of any type counts as true."""
        self._read.add(name)
        return is_true(self._document.get(name))

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
        self, name: str, default: Any = REQUIRED, *, minimum: int = LONG_MIN, maximum: int = LONG_MAX
    ) -> Any:
        """A whole number; a fraction is cut off, as the server's conversion does."""
        value = self.value(name, default)
        if value is default:
            return value
        whole = as_whole(value)
        if whole is None:
            raise self.wrong_type(name, value, _NUMBERS)
        if whole < minimum:
            reason = f"BSON field '{name}' value must be >= {minimum}, actual value '{whole}'"
            raise CommandError(out_of_range_code(self._release), reason)
        if whole > maximum:
            reason = f"BSON field '{name}' value must be <= {maximum}, actual value '{whole}'"
            raise CommandError(out_of_range_code(self._release), reason)
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
        number = as_number(value)
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

    def collation(self, name: str = "collation") -> dict[str, Any] | None:
        """A collation; an empty one is none."""
        return self.document(name, None) or None

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
        if document is None:
            return None
        return Arguments(f"{self._name}.{name}", document, self._release)

    def value(self, name: str, default: Any = REQUIRED) -> Any:
        self._read.add(name)
        value = self._document.get(name)
        if is_given(value):
            return value
        if default is REQUIRED:
            reason = f"BSON field '{self._name}.{name}' is missing but a required field"
            raise CommandError(ErrorCode.IDLFailedToParse, reason)
        return default

    def given(self, name: str) -> Any:
        """The value as it is, null too; `NOT_GIVEN` if the document does not have the field."""
        self._read.add(name)
        return self._document.get(name, NOT_GIVEN)

    def ignore(self, *names: str) -> None:
        """Allow fields that have no effect here."""
        self._read.update(names)

    def finish(self) -> None:
        """Refuse fields that were not read, except the command's own name and generic arguments.

        Declared fields have been checked already.
        """
        if self._is_declared:
            return
        for name in self._document:
            if name not in self._read and name != self._name and not is_generic(name, self._release):
                reason = f"BSON field '{self._name}.{name}' is an unknown field."
                raise CommandError(ErrorCode.IDLUnknownField, reason)

    def wrong_type(self, name: str, value: Any, expected: str) -> CommandError:
        """The error for a value of another type than ``expected``: one name, or several in brackets."""
        return wrong_type(f"{self._name}.{name}", value, expected)
