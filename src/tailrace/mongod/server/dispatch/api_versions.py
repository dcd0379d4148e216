"""The Stable API: the commands that a client of version 1 may use."""

from collections.abc import Mapping
from typing import Any, Final

from tailrace.error_codes import ErrorCode
from tailrace.errors import CommandError
from tailrace.mongod.server.dispatch.kinds import FLAG, TEXT, is_given
from tailrace.mongod.server.emulation.release import CURRENT

API_VERSION_1: Final = frozenset(
    {
        "abortTransaction", "aggregate", "authenticate", "bulkWrite", "collMod", "commitTransaction", "count",
        "create", "createIndexes", "delete", "drop", "dropDatabase", "dropIndexes", "endSessions", "explain",
        "find", "findAndModify", "getMore", "hello", "insert", "killCursors", "listCollections",
        "listDatabases", "listIndexes", "ping", "refreshSessions", "update",
    }
)  # fmt: skip
"""Commands of the Stable API, version 1."""
_KINDS: Final = {"apiVersion": TEXT, "apiStrict": FLAG, "apiDeprecationErrors": FLAG}
API_FIELDS: Final = tuple(_KINDS)

REQUIRED: Final = "requireApiVersion"
"""The parameter with which a server refuses commands without an API version."""


def check_has_api_version(command: Mapping[str, Any]) -> None:
    """Refuse a command without an API version."""
    if not is_given(command.get("apiVersion")):
        reason = "The apiVersion parameter is required, please configure your MongoClient's API version"
        raise CommandError(498870, reason)


def check_api_version(command: Mapping[str, Any], name: str) -> None:
    """Refuse an unknown API version, and with `apiStrict` commands that are not part of it."""
    for field, kind in _KINDS.items():
        if field in command:
            kind.check("APIParametersFromClient", field, command[field], CURRENT)
    if not is_given(command.get("apiVersion")):
        for field in ("apiStrict", "apiDeprecationErrors"):
            if is_given(command.get(field)):
                raise CommandError(4886600, f"Provided {field} without passing apiVersion")
        return
    if command["apiVersion"] != "1":
        raise CommandError(ErrorCode.APIVersionError, 'API version must be "1"')
    if command.get("apiStrict") is True and name not in API_VERSION_1:
        reason = (
            f"Provided apiStrict:true, but the command {name} is not in API Version 1. "
            "Information on supported commands and migrations in API Version 1 can be found at "
            "https://dochub.mongodb.org/core/manual-versioned-api"
        )
        raise CommandError(ErrorCode.APIStrictError, reason)
