"""Labels of errors, by which drivers decide what to retry: a statement, a transaction, a stream.

They depend on the code and on the situation of the command, never on the message.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import NON_RESUMABLE_CODES, NON_RESUMABLE_LABEL
from tailrace.mongod.server.emulation import release as releases
from tailrace.mongod.server.emulation.release import CURRENT, Release

TRANSIENT_TRANSACTION: Final = "TransientTransactionError"
RETRYABLE_WRITE: Final = "RetryableWriteError"
NO_WRITES_PERFORMED: Final = "NoWritesPerformed"
RESUMABLE_CHANGE_STREAM: Final = "ResumableChangeStreamError"

RETRIABLE_CODES: Final = frozenset(
    {
        6, 7, 89, 91, 134, 189, 262, 317, 358, 384, 402, 406, 407, 412, 453, 462, 471, 485, 488, 506, 512,
        515, 516, 521, 9001, 10107, 11600, 11602, 13435, 13436, 50915, 91331, 10045600,
    }
)  # fmt: skip
"""Errors after which the same request may succeed on a repaired connection or another primary."""

_STALE_SHARD_VERSION: Final = 63
"""Newer servers never raise it, but drivers count it as resumable, and fail points can raise it."""
_STALE_CHUNK_HISTORY: Final = 250
_MIGRATION_CONFLICT: Final = 272
_TENANT_MIGRATION_CODES: Final = (321, 325)
_INTERNAL_TRANSACTION_NOT_SUPPORTED: Final = 358
_RETRY_COUNTER_NOT_SUPPORTED: Final = 364
_RETARGETING_CODES: Final = frozenset({_STALE_SHARD_VERSION, ErrorCode.StaleEpoch, ErrorCode.StaleConfig})
_RESUMABLE_CODES: Final = (
    RETRIABLE_CODES
    | _RETARGETING_CODES
    | {ErrorCode.RetryChangeStream, ErrorCode.FailedToSatisfyReadPreference, ErrorCode.QueryPlanKilled}
)
_TRANSIENT_CODES: Final = _RETARGETING_CODES | {
    ErrorCode.LockTimeout,
    ErrorCode.WriteConflict,
    ErrorCode.SnapshotTooOld,
    ErrorCode.SnapshotUnavailable,
    ErrorCode.PreparedTransactionInProgress,
    _STALE_CHUNK_HISTORY,
    _MIGRATION_CONFLICT,
    *_TENANT_MIGRATION_CODES,
    _RETRY_COUNTER_NOT_SUPPORTED,
}
"""Errors after which a transaction may succeed if it is run again; seen on 6.0.27, where fail points raised
every code. They have the label on commit and abort, too."""
_TRANSIENT_UNLESS_ENDING: Final = RETRIABLE_CODES - {_INTERNAL_TRANSACTION_NOT_SUPPORTED}


@dataclass(frozen=True, slots=True)
class Situation:
    is_retryable_write: bool = False
    """A write with a transaction number outside of a transaction, or the end of a transaction."""
    in_transaction: bool = False
    ends_transaction: bool = False
    """commitTransaction or abortTransaction"""
    is_change_stream: bool = False
    before_body: bool = False
    """Whether the command was refused before it did anything."""


def labels_of(
    code: int | None,
    situation: Situation,
    *,
    own: Iterable[str] = (),
    write_concern_code: int | None = None,
    release: Release = CURRENT,
) -> list[str]:
    """The labels of a reply with this error code, or with this write concern error, or both.

    Older releases have no labels; drivers decide by the code.

    >>> labels_of(10107, Situation(is_retryable_write=True))
    ['RetryableWriteError']
    >>> labels_of(112, Situation(in_transaction=True))
    ['TransientTransactionError']
    """
    labels = [label for label in own if label != NON_RESUMABLE_LABEL]
    if situation.in_transaction and code is not None and _is_transient(code, situation, write_concern_code):
        labels.append(TRANSIENT_TRANSACTION)
    elif situation.is_retryable_write and not RETRIABLE_CODES.isdisjoint((code, write_concern_code)):
        if release.has(releases.ERROR_LABELS):
            labels.append(RETRYABLE_WRITE)
        if (
            situation.before_body
            and not situation.in_transaction
            and release.has(releases.NO_WRITES_PERFORMED)
        ):
            labels.append(NO_WRITES_PERFORMED)
    is_resumable = code in _RESUMABLE_CODES and situation.is_change_stream and write_concern_code is None
    if not labels and is_resumable and _labels_as_resumable(code, release):
        labels.append(RESUMABLE_CHANGE_STREAM)
    elif code in NON_RESUMABLE_CODES:
        labels.append(NON_RESUMABLE_LABEL)
    return list(dict.fromkeys(labels))


def _labels_as_resumable(code: int | None, release: Release) -> bool:
    if code == ErrorCode.QueryPlanKilled and not release.has(releases.KILLED_PLANS_RESUME):
        return False
    return release.has(releases.ERROR_LABELS)


def _is_transient(code: int, situation: Situation, write_concern_code: int | None) -> bool:
    if code in _TRANSIENT_CODES:
        return True
    if situation.ends_transaction:
        # Whether the transaction has ended is certain only if the majority has the result.
        return code == ErrorCode.NoSuchTransaction and write_concern_code is None
    return code in _TRANSIENT_UNLESS_ENDING or code == ErrorCode.NoSuchTransaction
