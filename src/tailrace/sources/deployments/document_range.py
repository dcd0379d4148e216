"""A part of a collection, as tasks are given it; needs no driver."""

from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

NO_SNAPSHOTS: Final = frozenset({
    int(ErrorCode.InvalidOptions),
    int(ErrorCode.IllegalOperation),
    int(ErrorCode.CommandNotSupported),
    int(ErrorCode.NotImplemented),
})  # fmt: skip
"""Errors of servers that have no snapshot reads outside of transactions"""


@dataclass(frozen=True, slots=True)
class DocumentRange:
    """A part of a collection; bounds are documents with an `_id`, the upper one is not included."""

    namespace: str
    lower: bytes | None = None
    upper: bytes | None = None
    by_index: bool = True
    """Whether it is read in the order of `_id`; the index of a collection with a collation has another one"""


def lacks_snapshots(error: CommandError) -> bool:
    """Whether an error means that a server cannot read at a cluster time at all."""
    return error.code in NO_SNAPSHOTS


def snapshots_missing(error: CommandError, namespace: str) -> CommandError:
    """The error of a server that cannot read at a cluster time, in a sentence for people."""
    return CommandError(error.code, f"a snapshot of {namespace} needs MongoDB 5.0 or later: {error}")
