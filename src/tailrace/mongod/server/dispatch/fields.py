"""The fields that a command, or a document in a command, can have.

They are checked in the order in which they are given, so that of several faults the server's is found: types
and unknown fields first, then required fields that are missing.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from tailrace.bson.repeated import repeated_field
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.events.stream_release import Since
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    ARRAY,
    COLLECTION_KINDS,
    DATE,
    DIGEST,
    LONG,
    OBJECT,
    TEXT,
    TIMESTAMP,
    UUID,
    Kind,
    at_least,
    is_given,
    struct,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import Release

LATER: Final[Since] = ((8, 0, 0),)
"""For fields that 6.0.27 does not have and 8.2 has."""
_GENERIC: Final = frozenset(
    {
        "$db", "$readPreference", "$clusterTime", "$client", "$audit", "$configServerState", "$configTime",
        "$topologyTime", "$oplogQueryData", "$queryOptions", "$replData", "apiDeprecationErrors", "apiStrict",
        "apiVersion", "autocommit", "clientOperationKey", "comment", "coordinator", "databaseVersion", "lsid",
        "maxTimeMS", "maxTimeMSOpOnly", "mayBypassWriteBlocking", "readConcern", "shardVersion", "stmtId",
        "startTransaction", "tracking_info", "txnNumber", "txnRetryCounter", "writeConcern",
        "allowImplicitCollectionCreation",
    }
)  # fmt: skip
_LATER_GENERIC: Final = frozenset(
    {
        "requestGossipRoutingCache", "startOrContinueTransaction", "traceCtx", "$traceCtx", "txnUUID",
        "versionContext",
    }
)  # fmt: skip
"""6.0.27 refuses them."""


GENERIC_ARGUMENTS: Final = _GENERIC | _LATER_GENERIC
"""What any command may have, in any release."""


def is_generic(name: str, release: Release) -> bool:
    """Whether any command may have a field of this name; the dispatcher reads it."""
    return name in _GENERIC or (name in _LATER_GENERIC and release.has(LATER))


class When(Enum):
    """When a command's fields are checked."""

    FIRST = "before the arguments that all commands have"
    LATE = "when the command runs"


class Fields:
    """Declared fields."""

    __slots__ = (
        "_is_command",
        "_is_open",
        "_kinds",
        "_missing_code",
        "_required",
        "_since",
        "_until",
        "_value_first",
        "when",
    )

    def __init__(
        self,
        kinds: Mapping[str, Kind],
        *,
        required: tuple[str, ...] = (),
        since: Mapping[str, Since] | None = None,
        until: Mapping[str, Since] | None = None,
        is_open: bool = False,
        is_command: bool = False,
        value_first: bool = False,
        missing_code: int = ErrorCode.IDLFailedToParse,
        when: When = When.FIRST,
    ) -> None:
        """Declare fields.

        ``since`` are the releases of fields that older ones do not have, ``until`` of those that later ones
        no longer have. ``is_open`` if unknown fields are ignored, ``is_command`` if generic arguments are
        allowed, ``value_first`` if a command's own value is checked before its other fields, not after them.
        """
        self._kinds = kinds
        self._required = required
        self._since = since or {}
        self._until = until or {}
        self._is_open = is_open
        self._missing_code = missing_code
        self._is_command = is_command
        self._value_first = value_first
        self.when = when

    def check(self, path: str, document: Mapping[str, Any], release: Release) -> None:
        """Raise for the first fault of a document."""
        kinds = self._kinds
        if self._value_first:
            kinds[path].check(path, path, document[path], release)
        for name, value in document.items():
            if name == path:
                continue
            kind = kinds.get(name)
            if kind is None or not self._has(name, release):
                self._check_unknown(path, name, release)
            else:
                kind.check(path, name, value, release)
        repeated = repeated_field(document)
        if repeated is not None and repeated in kinds:
            reason = f"BSON field '{path}.{repeated}' is a duplicate field"
            raise CommandError(ErrorCode.IDLDuplicateField, reason)
        if path in kinds and path in document and not self._value_first:
            kinds[path].check(path, path, document[path], release)
        for name in self._required:
            if not is_given(document.get(name)):
                reason = f"BSON field '{path}.{name}' is missing but a required field"
                raise CommandError(self._missing_code, reason)

    def _has(self, name: str, release: Release) -> bool:
        if name in self._until and release.has(self._until[name]):
            return False
        return name not in self._since or release.has(self._since[name])

    def names_collection(self, name: str) -> bool:
        """Whether the field is the name of a collection."""
        return self._kinds.get(name) in COLLECTION_KINDS

    def code_of(self, name: str, default: int) -> int:
        """The code for a field of a wrong type."""
        kind = self._kinds.get(name)
        return default if kind is None else kind.code

    def _check_unknown(self, path: str, name: str, release: Release) -> None:
        if self._is_open or (self._is_command and (name == path or is_generic(name, release))):
            return
        raise CommandError(ErrorCode.IDLUnknownField, f"BSON field '{path}.{name}' is an unknown field.")


def command(
    kinds: Mapping[str, Kind],
    *,
    required: tuple[str, ...] = (),
    since: Mapping[str, Since] | None = None,
    until: Mapping[str, Since] | None = None,
    late: bool = False,
    value_first: bool = False,
) -> Fields:
    """The fields of a command that refuses unknown ones."""
    when = When.LATE if late else When.FIRST
    return Fields(
        kinds,
        required=required,
        since=since,
        until=until,
        is_command=True,
        value_first=value_first,
        when=when,
    )


def old_command(
    kinds: Mapping[str, Kind],
    *,
    required: tuple[str, ...] = (),
    missing_code: int = ErrorCode.IDLFailedToParse,
) -> Fields:
    """The fields of a command that ignores unknown ones, as many old commands do."""
    return Fields(
        kinds,
        required=required,
        is_command=True,
        is_open=True,
        missing_code=missing_code,
        when=When.LATE,
    )


SESSION_ID: Final = Fields({"id": UUID, "uid": DIGEST, "txnNumber": LONG, "txnUUID": UUID}, required=("id",))
FULL_SESSION_ID: Final = Fields(
    {"id": UUID, "uid": DIGEST, "txnNumber": LONG, "txnUUID": UUID}, required=("id", "uid")
)
CONSTANTS: Final = struct(
    Fields(
        {
            "localNow": DATE,
            "clusterTime": TIMESTAMP,
            "jsScope": OBJECT,
            "isMapReduce": ANY,
            "userRoles": ARRAY,
        },
        required=("localNow",),
    )
)  # fmt: skip
"""Times that a router computed for all shards."""
ENCRYPTION: Final = struct(
    Fields(
        {"type": ANY, "schema": OBJECT, "deleteTokens": OBJECT, "crudProcessed": ANY}, required=("schema",)
    )
)
CURSOR_FIELDS: Final = Fields({"batchSize": at_least(0)})
CURSOR: Final = struct(CURSOR_FIELDS)
"""`cursor: {batchSize}`."""
RECOVERY_TOKEN: Final = struct(Fields({"recoveryShardId": TEXT}, is_open=True))
"""What a router gives a client that it may ask any router for the end of its transaction."""
BATCH_SIZE: Final = at_least(0)
