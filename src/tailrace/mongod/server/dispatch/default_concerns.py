"""Default read and write concerns, which an administrator can set."""

from collections.abc import Mapping
from typing import Any, Final

from bson import DatetimeMS

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.stored_settings import StoredSetting
from tailrace.mongod.server.dispatch.concerns import ReadConcern, WriteConcern
from tailrace.mongod.store.store import Store

_IMPLICIT_READ: Final[Mapping[str, Any]] = {"level": "local"}
_IMPLICIT_WRITE: Final[Mapping[str, Any]] = {"w": "majority", "wtimeout": 0}
_READ_LEVELS: Final = ("local", "available", "majority")


class DefaultConcerns:
    """The values that were set, or the server's defaults."""

    def __init__(self) -> None:
        self._stored = StoredSetting("settings", "ReadWriteConcernDefaults")
        self._fields: dict[str, Any] = {}

    def load(self, store: Store) -> None:
        """Read the stored values."""
        with store.snapshot() as reader:
            self._fields = self._stored.load(reader) or {}

    @property
    def write_concern(self) -> WriteConcern | None:
        """The write concern that was set, if one was."""
        found = self._fields.get("defaultWriteConcern")
        return None if found is None else WriteConcern.parse(found)

    @property
    def read_level(self) -> str | None:
        """The level of the read concern that was set, if one was."""
        found: str | None = self._fields.get("defaultReadConcern", {}).get("level")
        return found

    def describe(self, now: int, *, in_memory: bool = False) -> dict[str, Any]:
        """As getDefaultRWConcern shows them; ``now`` in milliseconds."""
        read, write = self._fields.get("defaultReadConcern"), self._fields.get("defaultWriteConcern")
        shown: dict[str, Any] = {
            "defaultReadConcern": dict(read or _IMPLICIT_READ),
            "defaultWriteConcern": dict(write or _IMPLICIT_WRITE),
        }
        shown |= {
            name: self._fields[name]
            for name in ("updateOpTime", "updateWallClockTime")
            if name in self._fields
        }
        return shown | {
            "defaultWriteConcernSource": "global" if write else "implicit",
            "defaultReadConcernSource": "global" if read else "implicit",
            **({"inMemory": True} if in_memory else {}),
            "localUpdateWallClockTime": DatetimeMS(now),
        }

    async def set(
        self, store: Store, read: Mapping[str, Any] | None, write: Mapping[str, Any] | None, now: int
    ) -> None:
        """Check and store new defaults; None keeps the present one."""
        fields: dict[str, Any] = {
            name: self._fields[name]
            for name in ("defaultReadConcern", "defaultWriteConcern")
            if name in self._fields
        }
        if read is not None:
            _check_read(read)
            fields["defaultReadConcern"] = dict(read)
            if not read:
                del fields["defaultReadConcern"]
        if write is not None:
            fields["defaultWriteConcern"] = _checked_write(write, self._fields)
        self._fields = await self._stored.save(
            store, lambda time: {**fields, "updateOpTime": time, "updateWallClockTime": DatetimeMS(now)}
        )


def _check_read(read: Mapping[str, Any]) -> None:
    parsed = ReadConcern.parse(dict(read))
    _check_no_provenance("read", read)
    if read and parsed.level not in _READ_LEVELS:
        reason = f"level: '{parsed.level}' is not suitable for the default read concern"
        raise CommandError(ErrorCode.BadValue, reason)
    if parsed.after_cluster_time is not None or parsed.at_cluster_time is not None:
        reason = "a default read concern has no afterClusterTime and no atClusterTime"
        raise CommandError(ErrorCode.BadValue, reason)


def _check_no_provenance(kind: str, concern: Mapping[str, Any]) -> None:
    if "provenance" in concern:
        reason = f"'provenance' must be unset in default {kind} concern"
        raise CommandError(ErrorCode.BadValue, reason)


def _checked_write(write: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    if not write:
        if "defaultWriteConcern" in before:
            reason = "The global default write concern cannot be unset once it is set."
            raise CommandError(ErrorCode.IllegalOperation, reason)
        return dict(_IMPLICIT_WRITE)
    parsed = WriteConcern.parse(dict(write))
    _check_no_provenance("write", write)
    if "w" not in write:
        raise CommandError(ErrorCode.BadValue, "Default write concern must have 'w' field.")
    if parsed.w == 0:
        raise CommandError(ErrorCode.BadValue, "Unacknowledged write concern is not suitable for the default")
    return parsed.to_document()
