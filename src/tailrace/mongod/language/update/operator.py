"""The contract between update operators and the code that applies them.

A compiled operator sits at the end of one path. It is given what is there now, or `MISSING`, and answers
what should be there: nothing changes, the field goes, or a new value. Where the value lives, how missing
parents are made and what the oplog says about it is none of its business.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from bson import DatetimeMS, Timestamp

from tailrace.bson.compare import StringKey
from tailrace.bson.documents import encode_value
from tailrace.query.missing import Missing

Path: TypeAlias = tuple[str | int, ...]
"""Steps into a document as it is: a string enters a document, an int an array."""


class NoValue(Enum):
    """Answers of an operator that bring no new value."""

    UNCHANGED = "unchanged"
    REMOVED = "removed"


UNCHANGED: Final = NoValue.UNCHANGED
REMOVED: Final = NoValue.REMOVED


@dataclass(frozen=True, slots=True)
class Changed:
    """A new value."""

    value: Any
    appended_from: int | None = None
    """The value is the old array and more: log its elements from this index on, not the whole array."""


Outcome: TypeAlias = NoValue | Changed


@dataclass(frozen=True, slots=True)
class UpdateContext:
    """What one application of an update knows besides the place an operator writes to."""

    original: dict[str, Any]
    now: DatetimeMS
    cluster_time: Timestamp
    is_upsert_insert: bool
    array_position: int | None


def never_skipped(_context: UpdateContext) -> bool:
    """No operator but a few is ever inert."""
    return False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator with its argument, compiled."""

    apply: Callable[[Any | Missing, Path, UpdateContext], Outcome]
    """From what is at a path to what should be there."""
    is_skipped: Callable[[UpdateContext], bool] = never_skipped
    """Whether the operator does nothing this time, wherever its path leads."""
    tolerates_blocked_path: bool = False
    """Whether a path through a scalar, which can lead nowhere, merely means that nothing is there."""
    renamed_from: Path | None = None
    """The field whose removal is logged together with the new value."""
    is_removal_logged: bool = True


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """The document after an update, and how to log the change."""

    document: dict[str, Any]
    diff: dict[str, Any] | None
    """The ``$v: 2`` diff of an update made of operators; None for others, and if nothing changed."""
    is_replacement: bool
    """Whether the update was a whole document, which is logged as such."""
    modified: bool
    """Whether the document's bytes changed; if not, there is nothing to write or log."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """What compiling an operator knows besides its path and argument."""

    string_key: StringKey = None
    collation: Any = None
    variables: Mapping[str, Any] | None = None


def changed_unless_same(current: Any | Missing, value: Any) -> Outcome:
    """The new value, unless it has the very bytes of the old one; 1 and 1.0 are not the same."""
    if current is value or (current is not Missing.MISSING and encode_value(current) == encode_value(value)):
        return UNCHANGED
    return Changed(value)


def dotted(path: Path) -> str:
    """The path as messages show it."""
    return ".".join(map(str, path))
