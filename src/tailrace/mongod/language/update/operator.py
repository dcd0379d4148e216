"""The contract between update operators and the code that applies them.

A compiled operator belongs to one path. It gets the present value at the path, or `MISSING`, and returns the
outcome: no change, removal of the field, or a new value. Finding the value, creating missing parents and
logging are not its task.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, Timestamp

from tailrace.bson.compare import StringKey, type_name
from tailrace.bson.documents import encode_value
from tailrace.bson.shell_notation import shell
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.query.missing import Missing

Path: TypeAlias = tuple[str | int, ...]
"""Steps into a document: a string is a field of a document, an int an index of an array."""


class NoValue(Enum):
    """Outcomes of an operator without a new value."""

    UNCHANGED = "unchanged"
    REMOVED = "removed"


UNCHANGED: Final = NoValue.UNCHANGED
REMOVED: Final = NoValue.REMOVED


@dataclass(frozen=True, slots=True)
class Changed:
    """A new value."""

    value: Any
    appended_from: int | None = None
    """Set if the value is the old array with elements appended: log those from this index on."""


Outcome: TypeAlias = NoValue | Changed


@dataclass(frozen=True, slots=True)
class UpdateContext:
    """The inputs of one application of an update that all operators share."""

    original: dict[str, Any]
    now: DatetimeMS
    cluster_time: Timestamp
    is_upsert_insert: bool
    array_position: int | None

    @property
    def shown_id(self) -> str:
        """The document's `_id`, for messages."""
        return f"{{_id: {shell(self.original.get('_id'))}}}"


def never_skipped(_context: UpdateContext) -> bool:
    """For the operators that always apply, which are most."""
    return False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its argument, compiled."""

    apply: Callable[[Any | Missing, Path, UpdateContext], Outcome]
    """From the present value at a path to the outcome."""
    is_skipped: Callable[[UpdateContext], bool] = never_skipped
    """Whether the operator does nothing in this application, at any path."""
    tolerates_blocked_path: bool = False
    """Whether a path through a scalar means that nothing is there; otherwise it is an error."""
    renamed_from: Path | None = None
    """The field whose removal is logged together with the new value."""
    is_removal_logged: bool = True


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The document after an update, and how to log the change."""

    document: dict[str, Any]
    """As it is stored: `_id` is its first field."""
    diff: dict[str, Any] | None
    """The ``$v: 2`` diff of an update made of operators; None for others, and if nothing changed."""
    is_replacement: bool
    """Whether the update was a whole document, which is logged as such."""
    modified: bool
    """Whether there is something to write and log."""
    as_built: dict[str, Any] | None = None
    """The document before its `_id` was added or became the first field, if that differs."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """The inputs of compilation that all operators share."""

    string_key: StringKey = None
    collation: Any = None
    variables: Mapping[str, Any] | None = None


def changed_unless_same(current: Any | Missing, value: Any) -> Outcome:
    """The new value, unless its bytes equal those of the old one; 1 and 1.0 differ."""
    if current is value or (current is not Missing.MISSING and encode_value(current) == encode_value(value)):
        return UNCHANGED
    return Changed(value)


def dotted(path: Path) -> str:
    """The path with dots, for messages."""
    return ".".join(map(str, path))


def checked_array(name: str, current: Any, path: Path, context: UpdateContext) -> list[Any]:
    """The present value at a path, which must be an array for the operator ``name``."""
    if isinstance(current, list):
        return current
    kind = type_name(current)
    if name == "$push":
        reason = f"The field '{dotted(path)}' must be an array but is of type {kind} "
        reason += f"in document {context.shown_id}"
    elif name == "$addToSet":
        reason = "Cannot apply $addToSet to non-array field. "
        reason += f"Field named '{path[-1]}' has non-array type {kind}"
    elif name == "$pop":
        reason = f"Path '{dotted(path)}' contains an element of non-array type '{kind}'"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    else:
        reason = "Cannot apply $pull to a non-array value"
    raise CommandError(ErrorCode.BadValue, reason)
