"""Read concern, write concern and read preference, as any command may carry them.

All members share one store and every commit is synced, so `local`, `majority` and `linearizable` read the
same, and every acknowledged write is on all members. A write concern for more members than the set has is
refused, as a replica set refuses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from bson import Int64, Timestamp

from tailrace.bson.compare import type_name
from tailrace.bson.repeated import repeated_field
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.cluster_time import from_timestamp, in_words
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.fields import Fields
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    GIVEN_OBJECT,
    GIVEN_TEXT,
    GIVEN_TIMESTAMP,
    LOOSE_FLAG,
    TEXT,
    as_whole,
    is_given,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import CURRENT

READ_CONCERN_LEVELS: Final = ("local", "available", "majority", "linearizable", "snapshot")
_LEVELS_WITH_TIME: Final = (None, "local", "majority", "snapshot")
_MAX_MEMBERS: Final = 50
_MIN_TIMEOUT_MS: Final = -(2**31)
_MAX_TIMEOUT_MS: Final = 2**31 - 1
_PROVENANCES: Final = (
    "clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults", "internalWriteDefault",
)  # fmt: skip
_WRITE_CONCERN: Final = Fields(
    {
        "w": ANY, "j": LOOSE_FLAG, "fsync": LOOSE_FLAG, "wtimeout": ANY, "provenance": TEXT,
        "getLastError": ANY, "wOpTime": ANY, "wElectionId": ANY,
    }
)  # fmt: skip
"""Any value is accepted for `wtimeout`; what is no number counts as 0."""
_READ_CONCERN: Final = {
    "level": GIVEN_TEXT,
    "afterClusterTime": GIVEN_TIMESTAMP,
    "atClusterTime": GIVEN_TIMESTAMP,
    "afterOpTime": GIVEN_OBJECT,
    "provenance": GIVEN_TEXT,
}


@dataclass(frozen=True, slots=True)
class ReadConcern:
    """What a reader may see; the level is None if the command does not give one."""

    level: str | None = None
    after_cluster_time: int | None = None
    at_cluster_time: int | None = None
    is_empty: bool = True
    """Whether the command has no field `readConcern`, or an empty one."""

    @classmethod
    def parse(cls, spec: object) -> "ReadConcern":
        """Read a command's field `readConcern`."""
        if not isinstance(spec, dict):
            raise CommandError(ErrorCode.FailedToParse, "readConcern field should be an object")
        for name, value in spec.items():
            _check_read_field(name, value)
        repeated = repeated_field(spec)
        if repeated is not None:
            raise _invalid(f"Duplicate option in readConcern: {repeated}")
        level, after, at = spec.get("level"), spec.get("afterClusterTime"), spec.get("atClusterTime")
        has_op_time = "afterOpTime" in spec
        if after is not None and has_op_time:
            raise _invalid("Can not specify both afterClusterTime and afterOpTime")
        if at is not None and (after is not None or has_op_time):
            other = "afterOpTime" if after is None else "afterClusterTime"
            raise _invalid(
                f"Specifying a timestamp for readConcern snapshot in a causally consistent {other}"
            )
        if after is not None and level not in _LEVELS_WITH_TIME:
            raise _invalid(
                "afterClusterTime field can be set only if level is equal to majority, local, or snapshot"
            )
        if has_op_time and level == "snapshot":
            raise _invalid("afterOpTime field cannot be set if level is equal to snapshot")
        if at is not None and level != "snapshot":
            raise _invalid("atClusterTime field can be set only if level is equal to snapshot")
        for name, time in (("afterClusterTime", after), ("atClusterTime", at)):
            if time == Timestamp(0, 0):
                raise _invalid(f"{name} cannot be a null timestamp")
        return cls(level, _cluster_time(after), _cluster_time(at), is_empty=not spec)


def _check_read_field(name: str, value: object) -> None:
    kind = _READ_CONCERN.get(name)
    if kind is None:
        raise _invalid(f"Unrecognized option in readConcern: {name}")
    kind.check("readConcern", name, value, CURRENT)
    if name == "level" and value not in READ_CONCERN_LEVELS:
        reason = (
            "readConcern.level must be either 'local', 'majority', 'linearizable', 'available', or 'snapshot'"
        )
        raise CommandError(ErrorCode.FailedToParse, reason)
    if name == "provenance" and value not in _PROVENANCES:
        reason = f"Enumeration value '{value}' for field 'ReadConcernArgs.provenance' is not a valid value."
        raise CommandError(ErrorCode.BadValue, reason)
    if name == "afterOpTime" and isinstance(value, dict):
        missing = next((part for part in ("ts", "t") if part not in value), None)
        if missing is not None:
            raise CommandError(ErrorCode.NoSuchKey, f'Missing expected field "{missing}"')


def _invalid(reason: str) -> CommandError:
    return CommandError(ErrorCode.InvalidOptions, reason)


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
    gives_w: bool = False
    """Whether the command gives `w`; otherwise the deployment's default applies."""
    provenance: str = "clientSupplied"
    """Where `w` is from, as errors show it."""

    @classmethod
    def parse(cls, spec: object) -> "WriteConcern":
        """Read a command's field `writeConcern`."""
        if not isinstance(spec, dict):
            raise _not_an_object("writeConcern", spec)
        fields = Arguments.checked("WriteConcernOptions", spec, _WRITE_CONCERN, CURRENT)
        w: Any = "majority" if spec else 1
        if "w" in spec:
            w = spec["w"] if is_given(spec["w"]) else ""
        journaled = fields.boolean("j", False)
        synced = fields.boolean("fsync", False)
        timeout_ms = as_whole(fields.value("wtimeout", 0)) or 0
        provenance = fields.text("provenance", _PROVENANCES[0])
        if provenance not in _PROVENANCES:
            reason = f"Enumeration value '{provenance}' for field 'provenance' is not a valid value."
            raise CommandError(ErrorCode.BadValue, reason)
        if timeout_ms > _MAX_TIMEOUT_MS:
            raise CommandError(ErrorCode.FailedToParse, "wtimeout must be a 32-bit integer")
        if journaled and synced:
            raise CommandError(ErrorCode.FailedToParse, "fsync and j options cannot be used together")
        w = _checked_w(w)
        return cls(w, journaled, max(timeout_ms, _MIN_TIMEOUT_MS), gives_w="w" in spec)

    @property
    def is_unacknowledged(self) -> bool:
        """Whether the client does not want to know what became of its writes."""
        return self.w == 0 and not self.journaled

    def with_default(self, default: "WriteConcern") -> "WriteConcern":
        """The concern with a deployment's default `w`, unless it gives one."""
        return self if self.gives_w else replace(self, w=default.w, provenance="customDefault")

    def failure(self, members: int = 1) -> dict[str, Any] | None:
        """The `writeConcernError` of a reply if a set of that many members cannot satisfy it, else None."""
        if self.w == "majority" or (isinstance(self.w, int) and self.w <= members):
            return None
        info = {"writeConcern": self.to_document() | {"provenance": self.provenance}}
        if isinstance(self.w, int):
            code, reason = ErrorCode.UnsatisfiableWriteConcern, "Not enough data-bearing nodes"
        elif isinstance(self.w, Mapping):
            code, reason = ErrorCode.NoSuchKey, f"No replica set tag key {next(iter(self.w), '')} in config"
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


def _checked_w(w: Any) -> int | str | dict[str, Int64]:
    problem = None
    if isinstance(w, dict):
        tags = {tag: as_whole(number) for tag, number in w.items()}
        if not tags:
            problem = "tagged write concern requires tags"
        elif None in tags.values():
            problem = "tags must be a single level document with only number values"
        else:
            return {tag: Int64(number or 0) for tag, number in tags.items()}
    elif is_string(w):
        return w
    else:
        number = as_whole(w)
        if number is not None and 0 <= number <= _MAX_MEMBERS:
            return number
        problem = (
            f"w has to be a number, string, or object; found: {type_name(w)}"
            if number is None
            else f"w has to be a non-negative number and not greater than {_MAX_MEMBERS}; found: {w}"
        )
    raise CommandError(ErrorCode.FailedToParse, problem)


def _not_an_object(name: str, value: object) -> CommandError:
    reason = f"BSON field '{name}' is the wrong type '{type_name(value)}', expected type 'object'"
    return CommandError(ErrorCode.TypeMismatch, reason)
