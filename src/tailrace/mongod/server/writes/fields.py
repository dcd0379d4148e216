"""The fields of the write commands and of their statements."""

from typing import Final

from tailrace.error_codes import ErrorCode
from tailrace.mongod.server.dispatch.fields import CONSTANTS, ENCRYPTION, LATER, Fields, command
from tailrace.mongod.server.dispatch.kinds import (
    ANY,
    COLLECTION,
    FLAG,
    GIVEN_FLAG,
    HINT,
    INT,
    LOOSE_FLAG,
    OBJECT,
    UUID,
    Kind,
    array_of,
    struct,
)  # fmt: skip

_CHANGE: Final = Kind(
    lambda value: isinstance(value, dict | list),
    "[object, array]",
    code=ErrorCode.FailedToParse,
    null_code=ErrorCode.FailedToParse,
)
"""Operators, a replacement or a pipeline."""
_SHARED: Final = {
    "ordered": FLAG, "bypassDocumentValidation": LOOSE_FLAG, "stmtId": INT, "stmtIds": array_of(INT),
    "isTimeseriesNamespace": GIVEN_FLAG, "collectionUUID": UUID, "encryptionInformation": ENCRYPTION,
    "bypassEmptyTsReplacement": FLAG, "rawData": FLAG,
}  # fmt: skip
_LATER: Final = dict.fromkeys(
    ("bypassEmptyTsReplacement", "rawData", "sort", "sampleId", "legacyRuntimeConstants",
     "allowShardKeyUpdatesWithoutFullShardKeyInQuery"),
    LATER,
)  # fmt: skip
UPDATE_STATEMENT: Final = Fields(
    {
        "q": OBJECT, "u": _CHANGE, "c": OBJECT, "arrayFilters": array_of(OBJECT), "hint": HINT, "multi": FLAG,
        "upsert": FLAG, "upsertSupplied": GIVEN_FLAG, "collation": OBJECT, "sort": OBJECT, "sampleId": UUID,
        "allowShardKeyUpdatesWithoutFullShardKeyInQuery": FLAG,
    },
    required=("q", "u"),
    since=_LATER,
)  # fmt: skip
DELETE_STATEMENT: Final = Fields(
    {"q": OBJECT, "limit": ANY, "collation": OBJECT, "hint": HINT, "sampleId": UUID},
    required=("q",),
    since=_LATER,
)
INSERT_FIELDS: Final = command(
    {"insert": COLLECTION, "documents": array_of(OBJECT), **_SHARED},
    since=_LATER,
)
UPDATE_FIELDS: Final = command(
    {
        "update": COLLECTION, "updates": array_of(struct(UPDATE_STATEMENT)), "let": OBJECT,
        "runtimeConstants": CONSTANTS, "legacyRuntimeConstants": CONSTANTS, **_SHARED,
    },
    since=_LATER,
)  # fmt: skip
DELETE_FIELDS: Final = command(
    {
        "delete": COLLECTION, "deletes": array_of(struct(DELETE_STATEMENT)), "let": OBJECT,
        "legacyRuntimeConstants": CONSTANTS, **_SHARED,
    },
    since=_LATER,
)  # fmt: skip
_FIND_AND_MODIFY: Final = {
    "query": OBJECT, "fields": OBJECT, "sort": OBJECT, "hint": HINT, "collation": OBJECT,
    "arrayFilters": array_of(OBJECT), "remove": LOOSE_FLAG, "update": _CHANGE, "upsert": LOOSE_FLAG,
    "new": LOOSE_FLAG, "bypassDocumentValidation": LOOSE_FLAG, "let": OBJECT, "runtimeConstants": CONSTANTS,
    "legacyRuntimeConstants": CONSTANTS, "stmtId": INT, "encryptionInformation": ENCRYPTION,
    "collectionUUID": UUID, "bypassEmptyTsReplacement": FLAG, "rawData": FLAG, "sampleId": UUID,
    "allowShardKeyUpdatesWithoutFullShardKeyInQuery": FLAG,
}  # fmt: skip
FIND_AND_MODIFY_FIELDS: Final = command(
    {"findAndModify": COLLECTION, "findandmodify": COLLECTION, **_FIND_AND_MODIFY},
    since={name: release for name, release in _LATER.items() if name != "sort"} | {"collectionUUID": LATER},
)
