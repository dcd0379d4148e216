"""The Stable API: the commands that a client of version 1 may use."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.arguments import Arguments
from tailrace.mongod.server.dispatch.kinds import is_given

API_VERSION_1: Final = frozenset(
    {
        "abortTransaction", "aggregate", "authenticate", "bulkWrite", "collMod", "commitTransaction", "count",
        "create", "createIndexes", "delete", "drop", "dropDatabase", "dropIndexes", "endSessions", "explain",
        "find", "findAndModify", "getMore", "hello", "insert", "killCursors", "listCollections",
        "listDatabases", "listIndexes", "ping", "refreshSessions", "update",
    }
)  # fmt: skip
"""Commands of the Stable API, version 1."""
API_FIELDS: Final = ("apiVersion", "apiStrict", "apiDeprecationErrors")


def check_api_version(command: Mapping[str, Any], name: str) -> None:
    """Refuse an unknown API version, and with `apiStrict` commands that are not part of it."""
    if not is_given(command.get("apiVersion")):
        for field in ("apiStrict", "apiDeprecationErrors"):
            if is_given(command.get(field)):
                raise CommandError(4886600, f"Provided {field} without passing apiVersion")
        return
    fields = Arguments(name, command)
    version = fields.text("apiVersion")
    is_strict = fields.boolean("apiStrict", False, strict=True)
    fields.boolean("apiDeprecationErrors", False, strict=True)
    if version != "1":
        raise CommandError(ErrorCode.APIVersionError, 'API version must be "1"')
    if is_strict and name not in API_VERSION_1:
        reason = (
            f"Provided apiStrict:true, but the command {name} is not in API Version 1. "
            "Information on supported commands and migrations in API Version 1 can be found at "
            "https://dochub.mongodb.org/core/manual-versioned-api"
        )
        raise CommandError(ErrorCode.APIStrictError, reason)
