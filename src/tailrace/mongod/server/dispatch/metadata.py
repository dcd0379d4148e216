"""Read what clients and routers send about a request beside its command: times, preferences, sessions, keys.

Most of it is checked before the fields of commands that check theirs late. The functions are called in the
order in which a real server finds faults.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from bson import Binary, Decimal128, Timestamp

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.fields import Fields
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    ARRAY,
    FLAG,
    GIVEN_OBJECT,
    INT,
    LONG,
    OBJECT,
    Kind,
    as_number,
    is_given,
    is_uuid,
    struct,
)  # fmt: skip
from tailrace.mongod.server.emulation.release import Release

READ_PREFERENCES: Final = ("primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest")
_MIN_STALENESS_SECONDS: Final = 90
_MAX_STALENESS_SECONDS: Final = 2**63 // 1000
_HASH_SIZE: Final = 20
_UUID_SIZE: Final = 16
_NOT_AN_OBJECT: Final = 10065
_NOT_A_BOOL: Final = 13111

_AUDIT: Final = Fields(
    {"$impersonatedUsers": ARRAY, "$impersonatedRoles": ARRAY}, required=("$impersonatedUsers",)
)
_OPERATION_KEY: Final = Kind(
    lambda value: is_uuid(value) and len(value) == _UUID_SIZE,
    "binData",
    code=ErrorCode.InvalidUUID,
    null_code=ErrorCode.InvalidUUID,
)
_WRITE_BLOCKING: Final = Kind(FLAG.accepts, "bool", code=_NOT_A_BOOL, null_code=_NOT_A_BOOL)
_SESSION: Final = Fields(
    {
        "lsid": OBJECT,
        "txnNumber": LONG,
        "autocommit": FLAG,
        "startTransaction": FLAG,
        "coordinator": FLAG,
        "txnRetryCounter": INT,
    },
    is_open=True,
)
_HEDGE: Final = Fields({"enabled": FLAG, "delay": ANY})


def check_operation_key(command: Mapping[str, Any], release: Release) -> None:
    """Check the id that a client gives an operation."""
    if "clientOperationKey" in command:
        _OPERATION_KEY.check("", "clientOperationKey", command["clientOperationKey"], release)


def check_origin(command: Mapping[str, Any], release: Release) -> None:
    """Check what routers send of the client and user of a request."""
    audit = command.get("$audit")
    if isinstance(audit, dict):
        _AUDIT.check("$audit", audit, release)
    if "$client" in command:
        _check_client(command["$client"])
    if "tracking_info" in command:
        GIVEN_OBJECT.check("", "tracking_info", command["tracking_info"], release)
        if "operId" not in command["tracking_info"]:
            raise CommandError(ErrorCode.NoSuchKey, 'Missing expected field "operId"')


def check_session_fields(command: Mapping[str, Any], release: Release) -> None:
    """Check the types of what says to which session and transaction a request belongs."""
    if "mayBypassWriteBlocking" in command:
        _WRITE_BLOCKING.check("", "mayBypassWriteBlocking", command["mayBypassWriteBlocking"], release)
    _SESSION.check("OperationSessionInfo", command, release)


def check_versions(command: Mapping[str, Any]) -> None:
    """Check the versions that routers send."""
    for name in ("shardVersion", "databaseVersion"):
        if name in command:
            _check_version(name, command[name])


def _check_client(client: object) -> None:
    if not isinstance(client, dict | list):
        raise CommandError(ErrorCode.TypeMismatch, "The client metadata document must be a document")
    if isinstance(client, list) or "driver" not in client:
        reason = "Missing required sub-document 'driver' in the client metadata document"
        raise CommandError(ErrorCode.ClientMetadataMissingField, reason)


def _check_version(name: str, version: object) -> None:
    """Refuse what a shard would refuse; a server without shards ignores a version that it can read."""
    if not isinstance(version, dict | list):
        raise CommandError(_NOT_AN_OBJECT, f"invalid parameter: expected an object ({name})")
    if name == "shardVersion" and not version:
        raise CommandError(ErrorCode.BadValue, "Unexpected empty version array")
    if name == "shardVersion" and isinstance(version, list):
        if not isinstance(version[0], Timestamp):
            reason = f"Invalid type {type_name(version[0])} for version major and minor part."
            raise CommandError(ErrorCode.TypeMismatch, reason)
        return
    if isinstance(version, list) or not ({"timestamp", "t"} & version.keys()):
        reason = f"BSON field '{name}.timestamp' is missing but a required field"
        raise CommandError(ErrorCode.IDLFailedToParse, reason)


def cluster_time(command: Mapping[str, Any]) -> int | None:
    """The cluster time that a client sends in `$clusterTime`."""
    if "$clusterTime" not in command:
        return None
    gossip = command["$clusterTime"]
    if not isinstance(gossip, dict | list):
        raise CommandError(_NOT_AN_OBJECT, "invalid parameter: expected an object ($clusterTime)")
    heard = _expected(gossip, "clusterTime", Timestamp, "timestamp")
    signature = _expected(gossip, "signature", dict, "object")
    digest = _expected(signature, "hash", bytes, "binData")
    _check_key(_expected(signature, "keyId", int | float | Decimal128, "long"))
    if isinstance(digest, Binary) or len(digest) != _HASH_SIZE:
        kind = "general" if not isinstance(digest, Binary) else f"{digest.subtype}"
        if kind != "general" or len(digest) != _HASH_SIZE:
            reason = f"The hash of $clusterTime must have {_HASH_SIZE} bytes of the general type"
            raise CommandError(ErrorCode.UnsupportedFormat, reason)
    found: int = heard.time << 32 | heard.inc
    return found


def _expected(document: Any, name: str, kind: Any, shown: str) -> Any:
    if isinstance(document, list) or name not in document:
        raise CommandError(ErrorCode.NoSuchKey, f'Missing expected field "{name}"')
    value = document[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        reason = f'"{name}" had the wrong type. Expected {shown}, found {type_name(value)}'
        raise CommandError(ErrorCode.TypeMismatch, reason)
    return value


def _check_key(key: object) -> None:
    number = as_number(key)
    if number is None or isinstance(number, int):
        return
    if not math.isfinite(number) or number != int(number):
        raise CommandError(ErrorCode.BadValue, f"keyId must be a 64-bit integer, not {key}")


def read_preference(spec: object, release: Release) -> str:
    """The mode in a command's field `$readPreference`."""
    if not isinstance(spec, dict):
        reason = f"$readPreference has incorrect type: expected object but got {type_name(spec)}"
        raise CommandError(ErrorCode.TypeMismatch, reason)
    mode = _expected(spec, "mode", str, "string")
    if not is_string(mode):
        raise CommandError(ErrorCode.TypeMismatch, '"mode" had the wrong type. Expected string')
    if mode not in READ_PREFERENCES:
        reason = f"Enumeration value '{mode}' for field '$readPreference.mode' is not a valid value."
        raise CommandError(ErrorCode.BadValue, reason)
    if "hedge" in spec:
        struct(_HEDGE).check("$readPreference", "hedge", spec["hedge"], release)
        if not is_given(spec["hedge"]):
            raise CommandError(ErrorCode.TypeMismatch, "hedge has incorrect type: expected object")
    has_tags = _has_tags(spec)
    staleness = _staleness(spec)
    if mode == "primary":
        if has_tags:
            reason = "Only empty tags are allowed with primary read preference"
            raise CommandError(ErrorCode.BadValue, reason)
        if staleness:
            reason = "maxStalenessSeconds can not be set for the primary mode"
            raise CommandError(ErrorCode.BadValue, reason)
        if is_given(spec.get("hedge")) and spec["hedge"].get("enabled", True):
            raise CommandError(ErrorCode.InvalidOptions, "cannot use hedging with the primary mode")
    return mode


def _has_tags(spec: Mapping[str, Any]) -> bool:
    if "tags" not in spec:
        return False
    tags = spec["tags"]
    if not isinstance(tags, list):
        raise CommandError(ErrorCode.TypeMismatch, '"tags" had the wrong type. Expected array')
    return tags not in ([], [{}])


def _staleness(spec: Mapping[str, Any]) -> int:
    if "maxStalenessSeconds" not in spec:
        return 0
    value = spec["maxStalenessSeconds"]
    number = as_number(value)
    if number is None:
        reason = f'"maxStalenessSeconds" had the wrong type. Expected long, found {type_name(value)}'
        raise CommandError(ErrorCode.TypeMismatch, reason)
    if not math.isfinite(number) or number != int(number) or not 0 <= number <= _MAX_STALENESS_SECONDS:
        raise CommandError(ErrorCode.BadValue, f"maxStalenessSeconds out of range: {value}")
    if 0 < number < _MIN_STALENESS_SECONDS:
        reason = f"maxStalenessSeconds value can not be less than {_MIN_STALENESS_SECONDS}"
        raise CommandError(ErrorCode.MaxStalenessOutOfRange, reason)
    return int(number)
