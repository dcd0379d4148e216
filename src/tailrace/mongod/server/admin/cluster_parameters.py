"""Cluster parameters: settings of the whole deployment, stored with its data.

There is one: `changeStreamOptions`, with the time after which pre-images expire.
"""

from collections.abc import Mapping
from typing import Any, Final

from bson import Int64, Timestamp

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.admin.stored_settings import StoredSetting
from tailrace.mongod.store.store import Store

CHANGE_STREAM_OPTIONS: Final = "changeStreamOptions"
NAMES: Final = (CHANGE_STREAM_OPTIONS,)
_OFF: Final = "off"
_DEFAULT: Final[Mapping[str, Any]] = {
    "clusterParameterTime": Timestamp(0, 0),
    "preAndPostImages": {"expireAfterSeconds": _OFF},
}


class ClusterParameters:
    def __init__(self) -> None:
        self._stored = StoredSetting("clusterParameters", CHANGE_STREAM_OPTIONS)
        self._options: Mapping[str, Any] = _DEFAULT

    def load(self, store: Store) -> None:
        """Read the stored values."""
        with store.snapshot() as reader:
            self._options = self._stored.load(reader) or _DEFAULT

    @property
    def image_expiry_seconds(self) -> int | None:
        """The age at which pre-images expire; None if they do not."""
        seconds = self._options["preAndPostImages"]["expireAfterSeconds"]
        return None if seconds == _OFF else int(seconds)

    def describe(self, name: str) -> dict[str, Any]:
        """A parameter as getClusterParameter shows it."""
        if name not in NAMES:
            raise CommandError(ErrorCode.NoSuchKey, f"Unknown server parameter: {name}")
        return {"_id": name, **self._options}

    async def copy_from(self, store: Store, other: "ClusterParameters") -> None:
        """Store the values of another server of the same cluster."""
        if self._options["preAndPostImages"] != other._options["preAndPostImages"]:
            images = {"preAndPostImages": other._options["preAndPostImages"]}
            await self.set(store, CHANGE_STREAM_OPTIONS, images)

    async def set(self, store: Store, name: str, value: object) -> None:
        """Check and store a value, which takes effect at once."""
        if name not in NAMES:
            raise CommandError(ErrorCode.IllegalOperation, f"Unknown Cluster Parameter {name}")
        images = {"preAndPostImages": {"expireAfterSeconds": _checked_expiry(value)}}
        self._options = await self._stored.save(store, lambda time: {"clusterParameterTime": time, **images})


def _checked_expiry(value: object) -> str | Int64:
    images = _only_field(value, CHANGE_STREAM_OPTIONS, "preAndPostImages")
    seconds = _only_field(images, "preAndPostImages", "expireAfterSeconds")
    if is_string(seconds):
        if seconds != _OFF:
            reason = f"Expected 'expireAfterSeconds' to be 'off' or a positive number, not '{seconds}'"
            raise CommandError(ErrorCode.BadValue, reason)
        return _OFF
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        reason = f"Expected 'expireAfterSeconds' to be 'off' or a positive number, not {type_name(seconds)}"
        raise CommandError(ErrorCode.BadValue, reason)
    if not 1 <= seconds < 2**63:
        raise CommandError(ErrorCode.BadValue, "Expected a positive integer for 'expireAfterSeconds'")
    return Int64(int(seconds))


def _only_field(value: object, path: str, name: str) -> object:
    if not isinstance(value, dict):
        code = ErrorCode.IllegalOperation if path == CHANGE_STREAM_OPTIONS else ErrorCode.BadValue
        raise CommandError(code, f"Expected '{path}' to be an object, not {type_name(value)}")
    for field in value:
        if field != name:
            raise CommandError(ErrorCode.BadValue, f"BSON field '{path}.{field}' is an unknown field.")
    if name not in value:
        raise CommandError(ErrorCode.BadValue, f"Expected a field '{name}' in '{path}'")
    return value[name]
