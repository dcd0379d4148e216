"""The verbosity of the log by component, as the parameters `logLevel` and `logComponentVerbosity` show it.

Here it has one effect: the log has debug lines while the default or some component is above zero.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from tailrace.bson.compare import type_name
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

Tree: TypeAlias = Mapping[str, "Tree"]

_WIRED_TIGER: Final[Tree] = {
    name: {}
    for name in (
        "wtBackup", "wtCheckpoint", "wtCompact", "wtEviction", "wtHS", "wtRecovery", "wtRTS", "wtSalvage",
        "wtTiered", "wtTimestamp", "wtTransaction", "wtVerify", "wtWriteLog",
    )
}  # fmt: skip
_COMPONENTS: Final[Tree] = {
    "accessControl": {}, "assert": {}, "command": {}, "control": {}, "executor": {}, "geo": {}, "index": {},
    "network": {"asio": {}, "bridge": {}, "connectionPool": {}},
    "processHealth": {}, "query": {}, "queryStats": {},
    "replication": {"election": {}, "heartbeats": {}, "initialSync": {}, "rollback": {}},
    "sharding": {
        "rangeDeleter": {}, "shardingCatalogRefresh": {}, "migration": {}, "reshard": {}, "migrationPerf": {},
    },
    "storage": {"recovery": {}, "journal": {}, "wt": _WIRED_TIGER},
    "write": {}, "ftdc": {}, "tracking": {}, "transaction": {}, "tenantMigration": {}, "test": {},
}  # fmt: skip
"""The components of a mongod; seen on 6.0.27."""
_INHERITED: Final = -1
_VERBOSITY: Final = "verbosity"


class LogVerbosity:
    """The level of each component; one that was not set has the level of the component around it."""

    def __init__(self) -> None:
        self._levels: dict[str, int] = {"": 0}
        """By path; the default has the empty path."""

    @property
    def is_debug(self) -> bool:
        """Whether some component logs more than by default."""
        return any(level > 0 for level in self._levels.values())

    @property
    def default(self) -> int:
        return self._levels[""]

    def to_document(self) -> dict[str, Any]:
        """All components, as getParameter shows them."""
        return self._described("", _COMPONENTS, 0)

    def check(self, value: object) -> dict[str, int]:
        """The levels that a document of setParameter sets, by path."""
        if not isinstance(value, dict):
            reason = f"logComponentVerbosity must be an object, not {type_name(value)}"
            raise CommandError(ErrorCode.TypeMismatch, reason)
        return dict(_levels("", value, _COMPONENTS))

    def set(self, levels: Mapping[str, int]) -> None:
        for path, level in levels.items():
            if level < 0 and path:
                self._levels.pop(path, None)
            else:
                self._levels[path] = max(level, 0)

    def _described(self, path: str, inside: Tree, unset: int) -> dict[str, Any]:
        shown: dict[str, Any] = {_VERBOSITY: self._levels.get(path, unset)}
        for name, parts in inside.items():
            shown[name] = self._described(_joined(path, name), parts, _INHERITED)
        return shown


def _levels(path: str, value: Mapping[str, Any], inside: Tree) -> Iterator[tuple[str, int]]:
    for name, part in value.items():
        if name == _VERBOSITY:
            yield path, _level(path, part)
        elif name not in inside:
            raise CommandError(ErrorCode.BadValue, f"Invalid component name {_joined(path, name)}")
        elif isinstance(part, dict):
            yield from _levels(_joined(path, name), part, inside[name])
        else:
            yield _joined(path, name), _level(_joined(path, name), part)


def _level(path: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        reason = f"the verbosity of {path or 'default'} must be a number, not {type_name(value)}"
        raise CommandError(ErrorCode.BadValue, reason)
    return int(value)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
