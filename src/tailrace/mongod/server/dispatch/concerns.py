"""Read concern, write concern and read preference, as any command may carry them.

All members share one store and every commit is synced, so `local`, `majority` and `linearizable` read the
same, and every acknowledged write is on all members. A write concern for more members than the set has is
refused, as a replica set refuses it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bson import Code, Timestamp

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, in_words
from tailrace.mongod.server.dispatch.arguments import Arguments

READ_CONCERN_LEVELS: Final = ("local", "available", "majority", "linearizable", "snapshot")
READ_PREFERENCES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_MAX_MEMBERS: Final = 50


@dataclass(frozen=True, slots=True)
class ReadConcern:
    """What a reader may see; the level is None if the command does not give one."""

    level: str | None = None
    after_cluster_time: int | None = None
    at_cluster_time: int | None = None

    @classmethod
    def parse(cls, spec: object) -> "ReadConcern":
        """Read a command's field `readConcern`."""
        if not isinstance(spec, dict):
            raise _not_an_object("readConcern", spec)
        fields = Arguments("readConcern", spec)
        level = fields.text("level", None)
        after = fields.timestamp("afterClusterTime", None)
        at = fields.timestamp("atClusterTime", None)
        fields.ignore(
            "provenance", "afterOpTime", "allowTransactionTableSnapshot", "waitLastStableRecoveryTimestamp"
        )
        fields.finish()
        if level is not None and level not in READ_CONCERN_LEVELS:
            levels = ", ".join(READ_CONCERN_LEVELS)
            reason = (
                f"Enumeration value '{level}' for field 'readConcern.level' is not a valid value: {levels}"
            )
            raise CommandError(ErrorCode.BadValue, reason)
        if at is not None and level != "snapshot":
            reason = "readConcern.atClusterTime is only allowed with the level snapshot"
            raise CommandError(ErrorCode.InvalidOptions, reason)
        if at is not None and after is not None:
            reason = "readConcern.atClusterTime and afterClusterTime cannot be given together"
            raise CommandError(ErrorCode.InvalidOptions, reason)
        for name, time in (("afterClusterTime", after), ("atClusterTime", at)):
            if time == Timestamp(0, 0):
                raise CommandError(ErrorCode.InvalidOptions, f"readConcern.{name} cannot be a null timestamp")
        return cls(level, _cluster_time(after), _cluster_time(at))


def check_not_ahead(field: str, wanted: int, now: int) -> None:
    """Refuse a time in a read concern that is later than the deployment's clock."""
    if wanted > now:
        reason = (
            f"readConcern {field} value must not be greater than the current clusterTime. "
            f"Requested {in_words(wanted)}; current {in_words(now)}"
        )
        raise CommandError(ErrorCode.InvalidOptions, reason)


def _cluster_time(timestamp: Timestamp | None) -> int | None:
    return None if timestamp is None else from_timestamp(timestamp)


@dataclass(frozen=True, slots=True)
class WriteConcern:
    """How many members must have a write before it is acknowledged."""

    w: int | str | Mapping[str, Any] = "majority"
    journaled: bool = False
    timeout_ms: int = 0

    @classmethod
    def parse(cls, spec: object) -> "WriteConcern":
        """Read a command's field `writeConcern`."""
        if not isinstance(spec, dict):
            raise _not_an_object("writeConcern", spec)
        fields = Arguments("writeConcern", spec)
        w = fields.value("w", "majority" if spec else 1)
        journaled = fields.boolean("j", False)
        synced = fields.boolean("fsync", False)
        timeout_ms = fields.value("wtimeout", 0)
        fields.ignore("provenance", "getLastError", "wOpTime", "wElectionId")
        fields.finish()
        if journaled and synced:
            raise CommandError(ErrorCode.FailedToParse, "fsync and j options cannot be used together")
        if isinstance(w, float) and w.is_integer():
            w = int(w)
        if isinstance(w, bool | Code) or not isinstance(w, int | str | dict):
            reason = f"w has to be a number, string, or object; found: {type_name(w)}"
            raise CommandError(ErrorCode.FailedToParse, reason)
        if isinstance(w, int) and not 0 <= w <= _MAX_MEMBERS:
            reason = f"w has to be a non-negative number and not greater than {_MAX_MEMBERS}; found: {w}"
            raise CommandError(ErrorCode.FailedToParse, reason)
        # The server accepts any value for wtimeout; values that are no numbers count as 0.
        is_number = isinstance(timeout_ms, int | float) and not isinstance(timeout_ms, bool)
        is_finite = is_number and math.isfinite(timeout_ms)
        return cls(w, journaled, int(timeout_ms) if is_finite else 0)

    def failure(self, members: int = 1) -> dict[str, Any] | None:
        """The `writeConcernError` of a reply if a set of that many members cannot satisfy it, else None."""
        if self.w == "majority" or (isinstance(self.w, int) and self.w <= members):
            return None
        info = {"writeConcern": self.to_document()}
        if isinstance(self.w, int):
            code, reason = ErrorCode.UnsatisfiableWriteConcern, "Not enough data-bearing nodes"
        else:
            code = ErrorCode.UnknownReplWriteConcern
            reason = f"No write concern mode named '{self.w}' found in replica set configuration"
        return {"code": int(code), "codeName": code.name, "errmsg": reason, "errInfo": info}

    def to_document(self) -> dict[str, Any]:
        """As errors and the default concerns show it."""
        shown: dict[str, Any] = {"w": self.w}
        if self.journaled:
            shown["j"] = True
        return shown | {"wtimeout": self.timeout_ms}


def read_preference(spec: object) -> str:
    """The mode in a command's field `$readPreference`."""
    if not isinstance(spec, dict):
        raise _not_an_object("$readPreference", spec)
    mode = spec.get("mode")
    if type(mode) is not str:
        reason = "the field mode of $readPreference must be a string"
        raise CommandError(ErrorCode.TypeMismatch if mode is not None else ErrorCode.FailedToParse, reason)
    if mode not in READ_PREFERENCES:
        raise CommandError(ErrorCode.FailedToParse, f"Could not parse $readPreference mode '{mode}'")
    if mode == "primary" and spec.get("tags") not in (None, [], [{}]):
        reason = "Only empty tags are allowed with primary read preference"
        raise CommandError(ErrorCode.BadValue, reason)
    return mode


def _not_an_object(name: str, value: object) -> CommandError:
    reason = f"BSON field '{name}' is the wrong type '{type_name(value)}', expected type 'object'"
    return CommandError(ErrorCode.TypeMismatch, reason)
