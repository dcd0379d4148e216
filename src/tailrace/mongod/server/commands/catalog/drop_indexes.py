"""`dropIndexes`: drop indexes of a collection."""

from typing import Any, Final

from tailrace.bson.values import is_string
from tailrace.error_codes import ErrorCode
from tailrace.mongod.server.access.needs import on_collection
from tailrace.mongod.server.dispatch.arguments import REQUIRED
from tailrace.mongod.server.dispatch.command import Command
from tailrace.mongod.server.dispatch.context import MemberContext
from tailrace.mongod.server.dispatch.fields import LATER, command
from tailrace.mongod.server.dispatch.kinds import COLLECTION, FLAG, Kind
from tailrace.mongod.server.writes.unit import run_catalog_change
from tailrace.mongod.store.ddl.create_and_drop_indexes import drop_indexes, is_all


async def run(context: MemberContext) -> dict[str, Any]:
    """Drop indexes by name, by a list of names, by key, or all except the one on `_id`."""
    database, name = context.database, context.collection_name()
    arguments = context.arguments()
    arguments.refuse_null("index", "[string, object]")
    which = arguments.value("index", REQUIRED)
    if isinstance(which, list):
        for item in which:
            if not is_string(item):
                raise arguments.wrong_type("index", item, "string")
    elif not (is_string(which) or isinstance(which, dict)):
        raise arguments.wrong_type("index", which, "[string, object, array]")
    arguments.ignore("rawData")
    arguments.finish()
    before = await run_catalog_change(context, lambda unit: drop_indexes(unit, database, name, which))
    reply: dict[str, Any] = {"nIndexesWas": before}
    if is_all(which):
        reply["msg"] = "non-_id indexes dropped for collection"
    return reply


_WHICH: Final = Kind(
    lambda value: is_string(value) or isinstance(value, dict | list),
    "[string, object, array]",
    null_code=ErrorCode.TypeMismatch,
)
_FIELDS: Final = command(
    {
        "dropIndexes": COLLECTION, "deleteIndexes": COLLECTION, "index": _WHICH,
        "isTimeseriesNamespace": FLAG, "rawData": FLAG,
    },
    required=("index",),
    since={"rawData": LATER},
)  # fmt: skip

COMMAND = Command(
    "dropIndexes",
    run,
    needs=on_collection("dropIndex"),
    help="Drop indexes of a collection.",
    fields=_FIELDS,
    aliases=("deleteIndexes",),
    is_write=True,
)
