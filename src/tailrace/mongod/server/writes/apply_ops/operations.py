"""The operations that a client gives to `applyOps`, checked as a real 6.0.27 checks them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bson import Binary

from tailrace.bson.compare import type_name
from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError

_OF_CHANGES: Final = frozenset(
    {"op", "ns", "ui", "o", "o2", "b", "fromMigrate", "stmtId", "needsRetryImage", "tid", "destinedRecipient"}
)
"""Fields of operations that can be applied together."""
_OF_ENTRIES: Final = _OF_CHANGES | {
    "ts", "t", "h", "v", "wall", "lsid", "txnNumber", "prevOpTime", "preImageOpTime", "postImageOpTime",
    "multiOpType",
}  # fmt: skip
_TYPES: Final = frozenset("iudcn")
COMMANDS: Final = frozenset(
    {"create", "renameCollection", "dbCheck", "drop", "collMod", "applyOps", "dropDatabase", "emptycapped",
     "createIndexes", "startIndexBuild", "commitIndexBuild", "abortIndexBuild", "dropIndexes",
     "deleteIndexes", "deleteIndex", "commitTransaction", "abortTransaction", "importCollection"}
)  # fmt: skip
"""Commands that the oplog may have; not all of them can be applied by a client."""


def check_operations(operations: Any) -> list[dict[str, Any]]:
    """Refuse what makes the whole command fail; return the operations."""
    if not isinstance(operations, list):
        raise _wrong_type("applyOps", operations, "array")
    for number, operation in enumerate(operations):
        _check(operation, number)
    return operations


def _check(operation: Any, number: int) -> None:
    if not isinstance(operation, dict):
        raise _wrong_type(str(number), operation, "object")
    if "op" not in operation:
        raise CommandError(ErrorCode.NoSuchKey, "Wrong type for ''. Expected a string, got a missing.")
    kind, ns = operation["op"], operation.get("ns")
    if not is_string(kind):
        raise _wrong_type("op", kind, "string")
    if not kind:
        raise _illegal(f'"op" field value cannot be empty: {number}')
    if "ns" not in operation:
        raise _illegal(f'op does not contain required "ns" field: {number}')
    if not is_string(ns):
        raise _illegal(f'"ns" field is not a string: {number}')
    if not ns and kind != "n":
        raise _illegal(f"\"ns\" field value cannot be empty when op type is not 'n': {number}")
    o = operation.get("o")
    if kind == "c" and isinstance(o, dict) and next(iter(o), "") not in COMMANDS:
        raise CommandError(
            ErrorCode.BadValue, f"Unknown oplog entry command type: {next(iter(o), '')} Object field: {o}"
        )


def can_be_atomic(operations: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all of them change documents, and have no field of an entry of its own."""
    return all(
        operation["op"] in "iudn"
        and _OF_CHANGES.issuperset(operation)
        and isinstance(operation.get("o"), dict)
        for operation in operations
    )


def check_entry(operation: Mapping[str, Any]) -> None:
    """Refuse an operation that is no entry of an oplog."""
    if operation["op"] not in _TYPES:
        reason = f"Enumeration value '{operation['op']}' for field 'OplogEntryBase.op' is not a valid value."
        raise CommandError(ErrorCode.BadValue, reason)
    for field in operation:
        if field not in _OF_ENTRIES:
            reason = f"BSON field 'OplogEntryBase.{field}' is an unknown field."
            raise CommandError(ErrorCode.IDLUnknownField, reason)
    for field in ("o", "o2"):
        value = operation.get(field)
        if value is None and field == "o":
            reason = "BSON field 'OplogEntryBase.o' is missing but a required field"
            raise CommandError(ErrorCode.IDLFailedToParse, reason)
        if value is not None and not isinstance(value, dict):
            raise CommandError(
                ErrorCode.TypeMismatch,
                f"BSON field 'OplogEntryBase.{field}' is the wrong type '{type_name(value)}', "
                "expected type 'object'",
            )


def uuid_of(operation: Mapping[str, Any]) -> bytes | None:
    """The UUID of the collection that an operation names."""
    value = operation.get("ui")
    if value is None:
        return None
    if not isinstance(value, Binary) or value.subtype != 4:
        reason = (
            f"BSON field 'OplogEntryBase.ui' is the wrong type '{type_name(value)}', expected type 'UUID'"
        )
        raise CommandError(ErrorCode.TypeMismatch, reason)
    return bytes(value)


def _wrong_type(field: str, value: Any, expected: str) -> CommandError:
    reason = f"Wrong type for '{field}'. Expected a {expected}, got a {type_name(value)}."
    return CommandError(ErrorCode.TypeMismatch, reason)


def _illegal(reason: str) -> CommandError:
    return CommandError(ErrorCode.IllegalOperation, reason)
